"""Arrays of other frameworks, by DLPack or the CUDA array interface."""

from __future__ import annotations

from typing import Any

from . import _native
from .errors import InvalidArgument


def shape(name: str, array: Any) -> tuple[int, ...]:
    """Extents of an array of four dimensions."""
    found = getattr(array, "shape", None)
    if found is None:
        kind = type(array).__name__
        raise InvalidArgument(
            f"tensor {name} is a {kind}: give a torch tensor, or an object with __dlpack__ or __cuda_array_interface__"
        )
    if len(found) != 4:
        meaning = "[B, Sq, Hq, D]" if name == "q" else "[B, Sk, Hk, Dv]"
        raise InvalidArgument(f"tensor {name} has {len(found)} dimensions, expected 4: {meaning}")
    return tuple(int(extent) for extent in found)


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
    b, s, h, _ = shape("q", q)
    extents = (b, s, h, shape("v", v)[3])
    return (empty(q, extents, str(q.dtype)) if out is None else out), empty(q, (b, h, s), "float32")


def empty(like: Any, extents: tuple[int, ...], dtype: str) -> Any:
    """An array of the framework of another, on its device, not initialised; a `DeviceArray` where that has no allocator."""
    if hasattr(like, "new_empty"):
        return like.new_empty(extents, dtype=dtype)
    if _is_cupy(like):
        import cupy

        with cupy.cuda.Device(_device(like)):
            return cupy.empty(extents, dtype)
    return _native.DeviceArray(extents, dtype, _device(like))


def stream(array: Any) -> int:
    """The address of the current stream where the framework has one; 0 is the default stream."""
    if not _is_cupy(array):
        return 0
    import cupy

    with cupy.cuda.Device(_device(array)):
        return cupy.cuda.get_current_stream().ptr


def attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None, out: Any, schedule: Any = None) -> tuple[Any, Any]:
    """O and LSE of arrays `[B, S, H, D]`."""
    out, lse = outputs(q, v, out)
    _native.run(q, k, v, out, lse, causal, scale, stream(q), schedule)
    return out, lse
