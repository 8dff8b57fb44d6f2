"""Attention in 8 bits: on 16-bit tensors that are rounded first, in one call or in two, and on tensors of 8 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _fp8, _native
from ._call import door
from ._refuse import refuse
from .errors import InvalidArgument


class Quantized(NamedTuple):
    """Q, K and V in e4m3 with their scales, as `quantize` writes them and `attention_quantized` takes them."""

    #: Codes of Q, `[B, Sq, Hq, D]`: float8_e4m3fn in torch, bytes elsewhere.
    q: Any
    #: Codes of K, `[B, Sk, Hk, D]`.
    k: Any
    #: Codes of V, transposed: `[B, Hk, Dv, Sk]`, keys filled up to a multiple of 16 and reordered within each 16.
    v: Any
    #: Scales of Q, float32: `[B, Hq, ceil(Sq / 64)]` by block, `[B, Hq]` by head, `[1]` for the tensor.
    q_scale: Any
    #: Scales of K: `[B, Hk, ceil(Sk / n)]` by block, of the schedule's n keys, `[B, Hk]`, `[1]`.
    k_scale: Any
    #: Scales of V: `[B, Hk]`, or `[1]`.
    v_scale: Any
    #: What they were rounded from, `bfloat16` or `float16`: the type of O unless another is asked for.
    dtype: str
    #: Where sums of O are to be kept, as asked of `quantize`.
    accumulate: str
    #: The seed of the rotation of Q and K; None: they were not rotated.
    rotation: int | None
    #: How P is to be made, as asked of `quantize`; it does not depend on the codes.
    exponential: str = "exact"


def attention_fp8(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    incoherent: bool = True,
    scales: str = "block",
    accumulate: str = "fast",
    exponential: str = "exact",
    out_dtype: Any = None,
    seed: int = 0,
    all_at_once: bool = True,
    return_lse: bool = False,
) -> Any:
    """Attention forward with products in e4m3: rounds Q, K and V with their scales, then multiplies; two launches.

    Args:
        q: `[B, Sq, Hq, D]` bfloat16 or float16 on a Hopper GPU, as for `attention`. D of 64, 96, 128, 192 or 256.
        k: `[B, Sk, Hk, D]`. Hk divides Hq.
        v: `[B, Sk, Hk, D]`.
        causal: query i sees key j if j <= i + Sk - Sq.
        scale: factor of q.k; 1/sqrt(D) unless given.
        incoherent: whether Q and K are rotated by random signs and a Hadamard matrix before they are rounded: outliers
            are spread over their row, q.k stays.
        scales: what shares a scale: `block` (64 rows of Q, a key tile of K, a head of V), `head` or `tensor`.
        accumulate: where sums of O are kept: `fast` in the tensor cores, whose sums have about 13 bits of fraction;
            `accurate` in a total apart, for long rows of values of one sign, D up to 128; `auto` is accurate from 8,192
            keys on where it can be.
        exponential: how P is made: `exact`, by the exponential unit; `linear` between powers of two where there is a
            schedule for it (D of 64, 128 or 256, fast sums), which is faster and gives every element of P an error of 3.1 %
            (its deviation) where rounding alone has 2.6 %; elsewhere P is exact all the same.
        out_dtype: bfloat16 or float16; the type of q unless given.
        seed: chooses the signs of the rotation.
        all_at_once: whether rounding may ask for all SMs at the same time, so that V is read once (a tenth faster). To be
            turned off beside kernels of other streams that hold SMs for long, such as communication, which it would wait
            for, and where the process may use a part of the GPU's SMs alone. The codes are the same.
        return_lse: whether to return the log-sum-exp too.

    Returns:
        `[B, Sq, Hq, D]`; with `return_lse` a pair of that and float32 `[B, Hq, Sq]`. Allocated as by `attention`; between
        the two launches the codes take about half of the inputs' memory.

    Raises `InvalidArgument` or `NotSupported` with the tensor's or the argument's name. Works under `torch.compile` and,
    once a call with these shapes was made, in a CUDA graph. There is no backward pass.
    """
    own = _fp8.name(q)
    if out_dtype is not None and _out(out_dtype) != own:
        how = {"accumulate": accumulate, "exponential": exponential}
        rounded = quantize(q, k, v, incoherent=incoherent, scales=scales, seed=seed, all_at_once=all_at_once, **how)
        return attention_quantized(rounded, causal=causal, scale=scale, out_dtype=out_dtype, return_lse=return_lse)
    rest = (incoherent, scales, accumulate, exponential, seed, all_at_once)
    o, lse = _door(q).attention_fp8(q, k, v, causal, scale, *rest)
    return (o, lse) if return_lse else o


def quantize(
    q: Any,
    k: Any,
    v: Any,
    *,
    incoherent: bool = True,
    scales: str = "block",
    accumulate: str = "fast",
    exponential: str = "exact",
    seed: int = 0,
    all_at_once: bool = True,
) -> Quantized:
    """The first half of `attention_fp8`, with its arguments: codes and scales that `attention_quantized` takes, any number
    of times. `accumulate` is how sums will be kept: it decides how many keys share a scale by block. `exponential` is how P
    will be made unless `attention_quantized` is told otherwise: the codes are the same.
    """
    parts = _door(q).quantize(q, k, v, incoherent, scales, accumulate, seed, all_at_once)
    return Quantized(*parts, _fp8.name(q), accumulate, seed if incoherent else None, exponential)


def attention_quantized(
    q: Any,
    k: Any = None,
    v: Any = None,
    *,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    causal: bool = False,
    scale: float | None = None,
    accumulate: str | None = None,
    exponential: str | None = None,
    out_dtype: Any = None,
    rotation: int | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention over K and V of 8 bits, in one of three forms.

    `attention_quantized(quantized)`: what `quantize` wrote.

    `attention_quantized(q, k, v, q_scale=..., k_scale=..., v_scale=...)`: all three float8_e4m3fn or all float8_e5m2, as a
    KV cache holds them: `[B, Sq, Hq, D]`, `[B, Sk, Hk, D]`, `[B, Sk, Hk, D]`, any strides over a contiguous last dimension
    with rows on 16-byte boundaries. A value is its code times its scale. Scales are float32: `[B, Hk]` as FlashAttention-3
    takes them (of Q also `[B, Hq]`), with any strides, or `[1]`; 1 where they are left out.

    `attention_quantized(q, k, v, k_scale=..., v_scale=...)` with q of bfloat16 or float16 over float8_e4m3fn: Q is rounded
    here, by scales of its own.

    Args:
        causal: query i sees key j if j <= i + Sk - Sq.
        scale: factor of q.k; 1/sqrt(D) unless given.
        accumulate: `fast`, `accurate` or `auto`, as for `attention_fp8`. What a `Quantized` was made for unless given, else
            `fast`.
        exponential: `exact` or `linear`, as for `attention_fp8`. What a `Quantized` was made for unless given, else
            `exact`. V by rows, as a cache has it, has no schedule that takes P for linear.
        out_dtype: bfloat16 or float16. Unless given what a `Quantized` was rounded from, the type of a 16-bit q, or
            bfloat16.
        rotation: the seed of the rotation that K was rotated by, for a q of 16 bits, which then is too.
        return_lse: whether to return the log-sum-exp too.

    Returns:
        As `attention_fp8`.

    Raises `InvalidArgument` with the tensor's name for shapes that do not go together, scales among them; `NotSupported`
    for types, and for head dimensions that no schedule has.
    """
    call = _arguments(q, k, v, (q_scale, k_scale, v_scale), (accumulate, exponential), out_dtype, rotation)
    o, lse = _door(call.tensors[0]).attention_quantized(call, causal, scale)
    return (o, lse) if return_lse else o


def by_schedule(
    quantized: Quantized, causal: bool, scale: float | None, out_dtype: Any, schedule: _native.Schedule
) -> tuple[Any, Any]:
    """O and LSE of codes that `quantize` wrote, by a schedule of the caller's own."""
    call = _arguments(quantized, None, None, (None, None, None), (None, None), out_dtype, None)
    return _fp8.attention_quantized(door(call.tensors[0]), call, causal, scale, schedule)


def planned(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> _native.Fp8Call:
    """The call of `attention_quantized` that a question is about. Nothing runs."""
    call = _arguments(q, k, v, (None, None, None), (None, None), None, None)
    return _fp8.planned(door(call.tensors[0]), call, causal, scale)


def is_eight_bit(q: Any, k: Any) -> bool:
    """Whether a question is about `attention_quantized`."""
    return isinstance(q, Quantized) or any(_fp8.name(x).startswith("float8") for x in (q, k))


def _arguments(
    q: Any,
    k: Any,
    v: Any,
    scales: tuple[Any, Any, Any],
    how: tuple[str | None, str | None],
    out_dtype: Any,
    rotation: int | None,
) -> _fp8.Call:
    """One of the three forms. `how` is how sums are kept and P is made."""
    accumulate, exponential = how
    if isinstance(q, Quantized):
        names = ("k", "v", "q_scale", "k_scale", "v_scale", "rotation")
        for name, value in zip(names, (k, v, *scales, rotation), strict=True):
            if value is not None:
                raise InvalidArgument(f"attention_quantized: q is a Quantized, which has its own {name}: leave it out")
        out = q.dtype if out_dtype is None else _out(out_dtype)
        how = (accumulate or q.accumulate, exponential or q.exponential)
        return _fp8.Call(tuple(q[:3]), tuple(q[3:6]), how[0], out, True, None, how[1])
    for name, value in (("k", k), ("v", v)):
        if value is None:
            raise InvalidArgument(f"attention_quantized: tensor {name} is missing; without it q is what quantize gives")
    own = _fp8.name(q)
    out = _out(out_dtype) if out_dtype is not None else own if own in ("bfloat16", "float16") else "bfloat16"
    return _fp8.Call((q, k, v), scales, accumulate or "fast", out, False, rotation, exponential or "exact")


def _out(dtype: Any) -> str:
    """The name of a type that O may have."""
    name = str(getattr(dtype, "__name__", dtype)).rsplit(".", 1)[-1]
    if name not in ("bfloat16", "float16"):
        raise refuse("attention in 8 bits", "out_dtype", name, "O is bfloat16 or float16")
    return name


def _door(q: Any) -> Any:
    """What knows a tensor's framework."""
    module = door(q)
    if module.__name__.endswith("_torch"):
        from . import _torch_fp8

        return _torch_fp8
    return _fp8.Plain(module)
