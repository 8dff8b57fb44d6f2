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
def device_name(device: int) -> str: ...
def reserve_counters(launches: int, device: int) -> None: ...
