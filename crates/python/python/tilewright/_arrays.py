"""Arrays of other frameworks, by DLPack or the CUDA array interface."""

from __future__ import annotations

from typing import Any

from . import _native
from .errors import InvalidArgument


def _shape(name: str, array: Any) -> tuple[int, ...]:
    """Extents of an array of four dimensions."""
    shape = getattr(array, "shape", None)
    if shape is None:
        kind = type(array).__name__
        raise InvalidArgument(
            f"tensor {name} is a {kind}: give a torch tensor, or an object with __dlpack__ or __cuda_array_interface__"
        )
    if len(shape) != 4:
        meaning = "[B, Sq, Hq, D]" if name == "q" else "[B, Sk, Hk, Dv]"
        raise InvalidArgument(f"tensor {name} has {len(shape)} dimensions, expected 4: {meaning}")
    return tuple(int(extent) for extent in shape)


def _is_cupy(array: Any) -> bool:
    return type(array).__module__.split(".")[0] == "cupy"


def _device(array: Any) -> int:
    """The number of the array's GPU."""
    if hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        return int(number) if kind == 2 else 0
    return int(getattr(getattr(array, "device", 0), "id", 0))


def outputs(q: Any, v: Any, out: Any = None) -> tuple[Any, Any]:
    """O `[B, Sq, Hq, Dv]`, unless given, and LSE float32 `[B, Hq, Sq]`, not initialised."""
    b, s, h, _ = _shape("q", q)
    extents = (b, s, h, _shape("v", v)[3])
    if hasattr(q, "new_empty"):
        return (q.new_empty(extents) if out is None else out), q.new_empty((b, h, s), dtype="float32")
    if _is_cupy(q):
        import cupy

        with cupy.cuda.Device(_device(q)):
            return (cupy.empty(extents, q.dtype) if out is None else out), cupy.empty((b, h, s), "float32")
    device = _device(q)
    if out is None:
        out = _native.DeviceArray(extents, str(q.dtype), device)
    return out, _native.DeviceArray((b, h, s), "float32", device)


def attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None, out: Any, schedule: Any = None) -> tuple[Any, Any]:
    """O and LSE of arrays `[B, S, H, D]`."""
    out, lse = outputs(q, v, out)
    stream = 0
    if _is_cupy(q):
        import cupy

        with cupy.cuda.Device(_device(q)):
            stream = cupy.cuda.get_current_stream().ptr
    _native.run(q, k, v, out, lse, causal, scale, stream, schedule)
    return out, lse
