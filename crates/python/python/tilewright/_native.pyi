"""The compiled half of the package. Tensors are read by their attributes; addresses of streams are integers."""

from typing import Any

version: str

class DeviceArray:
    """A contiguous array in device memory that speaks DLPack and, but for bfloat16, the CUDA array interface."""

    def __init__(self, shape: tuple[int, ...], dtype: str, device: int) -> None: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

class Schedule:
    """A schedule that was read from text, lowered and proven."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def ptx(self) -> str: ...
    def cost(self) -> str: ...

class Prediction:
    """What a launch is predicted to take, and by which schedule. A model of an H200: no measurement."""

    @property
    def schedule(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def bound(self) -> float: ...
    @property
    def binds(self) -> str: ...
    @property
    def flops(self) -> float: ...
    @property
    def calibrated(self) -> bool: ...
    @property
    def tflops(self) -> float: ...

class Fp8Call:
    """A call of 8-bit attention that was read and planned, on the stream that it was read for."""

    @property
    def workspace_bytes(self) -> int: ...
    def run(self, workspace: Any | None = None) -> None: ...
    def warm_up(self) -> str: ...
    def prediction(self) -> Prediction: ...
    def explain(self) -> str: ...

class Quantizer:
    """Q, K and V of 16 bits that were read, and what rounds them, on the stream that they were read for."""

    @property
    def workspace_bytes(self) -> int: ...
    def run(self, codes: tuple[Any, Any, Any], scales: tuple[Any, Any, Any], workspace: Any) -> None: ...

def fp8_call(
    tensors: tuple[Any, Any, Any, Any, Any],
    causal: bool,
    scale: float | None,
    incoherent: bool,
    scales: str,
    accumulate: str,
    exponential: str,
    seed: int,
    all_at_once: bool,
    stream: int,
) -> Fp8Call: ...
def quantized_call(
    tensors: tuple[Any, Any, Any, Any, Any],
    scales: tuple[Any | None, Any | None, Any | None],
    causal: bool,
    scale: float | None,
    accumulate: str,
    exponential: str,
    key_block: int | None,
    rotation: int | None,
    stream: int,
    schedule: Schedule | None = None,
) -> Fp8Call: ...
def quantizer(
    tensors: tuple[Any, Any, Any],
    incoherent: bool,
    scales: str,
    key_block: int,
    seed: int,
    all_at_once: bool,
    stream: int,
) -> Quantizer: ...
def key_block(head_dim: int, value_dim: int, keys: int, accumulate: str) -> int: ...
def use_tuning(tuning: str | None, schedules: str | None) -> None: ...
def tune(words: list[str]) -> int: ...
def schedules(text: str, name: str | None = None) -> list[Schedule]: ...
def run(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    causal: bool,
    scale: float | None,
    stream: int,
    schedule: Schedule | None = None,
) -> None: ...
def warm_up(
    tensors: tuple[Any, Any, Any, Any], causal: bool, scale: float | None, schedule: Schedule | None = None
) -> str: ...
def explain(
    tensors: tuple[Any, Any, Any, Any], causal: bool, scale: float | None, schedule: Schedule | None = None
) -> str: ...
def predict(
    tensors: tuple[Any, Any, Any, Any], causal: bool, scale: float | None, schedule: Schedule | None = None
) -> Prediction: ...
def device_name(device: int) -> str: ...
def reserve_counters(launches: int, device: int) -> None: ...
