"""`attention`, and what can be asked about a call, in [B, S, H, D]: the framework of the tensors decides where it goes."""

from __future__ import annotations

from typing import Any

from . import _native
from ._refuse import check_score


def door(q: Any) -> Any:
    """The module that knows a tensor's framework. Torch is imported once a tensor has its attributes, never before."""
    if hasattr(q, "data_ptr"):
        try:
            from . import _torch

            return _torch
        except ModuleNotFoundError:
            # Something else with the same attributes.
            pass
    from . import _arrays

    return _arrays


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    out: Any = None,
    return_lse: bool = False,
) -> Any:
    """Attention forward: softmax(scale * q kᵀ) v, head by head.

    Args:
        q: `[B, Sq, Hq, D]` bfloat16 or float16 on a Hopper GPU: a torch tensor, or anything with `__dlpack__` or
            `__cuda_array_interface__`. Any strides over a contiguous last dimension, with rows on 16-byte boundaries, so
            that a transposed `[B, H, S, D]` needs no copy.
        k: `[B, Sk, Hk, D]`. Hk divides Hq; query head h reads key head floor(h / (Hq / Hk)).
        v: `[B, Sk, Hk, Dv]`.
        causal: query i sees key j if j <= i + Sk - Sq (aligned at the bottom right).
        scale: factor of q.k; 1/sqrt(D) unless given.
        window: not supported; refused unless it hides nothing.
        softcap: not supported; refused unless 0.
        out: `[B, Sq, Hq, Dv]`, written instead of a new tensor. Must not overlap an input.
        return_lse: whether to return the log-sum-exp too.

    Returns:
        `[B, Sq, Hq, Dv]` of q's type; with `return_lse` a pair of that and float32 `[B, Hq, Sq]`, the natural logarithm of
        the sum of exp(scale * q.k). A row that sees no key gives 0 and -inf.

        Torch tensors and CuPy arrays: allocated by their framework, in the order of its current stream. Others: a
        `DeviceArray` that any framework takes by `from_dlpack`, ready when the call returns.

    Works under `torch.compile` and, once a call with these shapes was made or warmed up, in a CUDA graph. There is no
    backward pass: gradients through it raise `NotSupported`.
    """
    if window is not None or softcap is not None:
        check_score("attention", window, softcap)
    o, lse = door(q).attention(q, k, v, causal, scale, out)
    return (o, lse) if return_lse else o


def explain(
    q: Any, k: Any = None, v: Any = None, *, causal: bool = False, scale: float | None = None, out: Any = None
) -> str:
    """How `attention` would compute this, and why: the schedule that was chosen, its tile, registers and shared memory,
    and every other schedule with the reason against it. Shapes as for `attention`, or as for `attention_quantized` (8 bits,
    or what `quantize` wrote); nothing is launched.
    """
    eight = _eight_bit(q, k, v, causal, scale)
    return eight.explain() if eight is not None else _native.explain(_four(q, k, v, out), causal, scale)


def predict(
    q: Any, k: Any = None, v: Any = None, *, causal: bool = False, scale: float | None = None, out: Any = None
) -> _native.Prediction:
    """What the cost model says that `attention` takes for this, and by which schedule, to hold a measurement against.
    Shapes as for `explain`; nothing is launched.

    `schedule` names the schedule; `seconds` is the time of a launch in a burst on an H200 with as many SMs, `bound` the
    least that its units allow, `binds` what takes the largest share, `flops` the operations of what the mask leaves,
    `tflops` their rate. `calibrated` says whether the model was held against measurements of such schedules.
    """
    eight = _eight_bit(q, k, v, causal, scale)
    return eight.prediction() if eight is not None else _native.predict(_four(q, k, v, out), causal, scale)


def warm_up(
    q: Any, k: Any = None, v: Any = None, *, causal: bool = False, scale: float | None = None, out: Any = None
) -> str:
    """Plans and loads the kernel for these shapes, so that the first call is as fast as the others and may be recorded by
    a CUDA graph. Shapes as for `explain`; nothing is launched. Says how the kernel was loaded.

    Of 8 bits it loads what takes them without scales; a call of `attention_fp8`, or of `quantize`, loads theirs.
    """
    eight = _eight_bit(q, k, v, causal, scale)
    return eight.warm_up() if eight is not None else _native.warm_up(_four(q, k, v, out), causal, scale)


def _four(q: Any, k: Any, v: Any, out: Any) -> tuple[Any, Any, Any, Any]:
    """With an O that is made where none is given."""
    return q, k, v, door(q).outputs(q, v)[0] if out is None else out


def _eight_bit(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> _native.Fp8Call | None:
    """The call of a question about 8 bits."""
    from . import fp8

    return fp8.planned(q, k, v, causal, scale) if fp8.is_eight_bit(q, k) else None


def reserve_counters(launches: int, device: int = 0) -> None:
    """Makes room for this many launches that CUDA graphs are going to record. About two thousand are free at any time."""
    _native.reserve_counters(launches, device)
