"""What every framework's 8-bit attention comes down to: allocate, plan, launch. A framework is a module with `empty` and
`stream`, as `_torch` and `_arrays` are.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from . import _native
from .errors import InvalidArgument

#: Rows of Q that share a scale by block.
QUERY_ROWS = 64
#: Keys of transposed V are filled up to a multiple of this.
VALUE_KEYS = 16


class Call(NamedTuple):
    """Arguments of `attention_quantized`, whichever of its forms they came in."""

    #: Q, K and V.
    tensors: tuple[Any, Any, Any]
    #: Their scales, or None.
    scales: tuple[Any, Any, Any]
    accumulate: str
    #: The type of O, by name.
    out: str
    #: Whether they are a quantizer's, with V transposed.
    codes: bool
    #: The seed that K was rotated by.
    rotation: int | None
    exponential: str


def name(tensor: Any) -> str:
    """The name of a tensor's type, without its framework."""
    return str(getattr(tensor, "dtype", type(tensor).__name__)).rsplit(".", 1)[-1]


def extents(named: str, tensor: Any, meaning: str) -> tuple[int, ...]:
    """Four extents."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        kind = type(tensor).__name__
        raise InvalidArgument(
            f"tensor {named} is a {kind}: give a torch tensor, or an object with __dlpack__ or __cuda_array_interface__"
        )
    if len(shape) != 4:
        raise InvalidArgument(f"tensor {named} has {len(shape)} dimensions, expected 4: {meaning}")
    return tuple(shape)


@functools.cache
def _key_block(head_dim: int, value_dim: int, keys: int, accumulate: str) -> int:
    return _native.key_block(head_dim, value_dim, keys, accumulate)


def key_block(head_dim: int, value_dim: int, keys: int, accumulate: str) -> int:
    """Keys that share a scale by block; their number matters to `auto` alone."""
    return _key_block(int(head_dim), int(value_dim), int(keys) if accumulate == "auto" else 1, accumulate)


def forget() -> None:
    """Forgets key tiles, which follow from the schedules that there are."""
    _key_block.cache_clear()


def outputs(framework: Any, q: Any, v: Any, out: str, codes: bool = False) -> tuple[Any, Any]:
    """O `[B, Sq, Hq, Dv]` of the type of that name, and LSE float32 `[B, Hq, Sq]`, not initialised."""
    b, s, h, _ = extents("q", q, "[B, Sq, Hq, D]")
    dv = extents("v", v, "[B, Hk, Dv, Sk]" if codes else "[B, Sk, Hk, Dv]")[2 if codes else 3]
    return framework.empty(q, (b, s, h, dv), out), framework.empty(q, (b, h, s), "float32")


def parts(framework: Any, q: Any, k: Any, v: Any, scales: str, accumulate: str, code: str) -> tuple[Any, ...]:
    """What `quantize` writes, codes of the type of that name, not initialised."""
    b, sq, hq, d = extents("q", q, "[B, Sq, Hq, D]")
    _, sk, hk, _ = extents("k", k, "[B, Sk, Hk, D]")
    dv = extents("v", v, "[B, Sk, Hk, Dv]")[3]
    by_head = scales != "tensor"
    shapes = [(b, hq), (b, hk), (b, hk)] if by_head else [(1,)] * 3
    if scales == "block":
        block = key_block(d, dv, sk, accumulate)
        shapes[:2] = [(b, hq, -(-sq // QUERY_ROWS)), (b, hk, -(-sk // block))]
    codes = [(b, sq, hq, d), (b, sk, hk, d), (b, hk, dv, -(-sk // VALUE_KEYS) * VALUE_KEYS)]
    empty = framework.empty
    return (*(empty(q, shape, code) for shape in codes), *(empty(q, shape, "float32") for shape in shapes))


def attention_fp8(
    framework: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: float | None,
    incoherent: bool,
    scales: str,
    accumulate: str,
    exponential: str,
    seed: int,
    all_at_once: bool,
) -> tuple[Any, Any]:
    """O and LSE of 16-bit tensors."""
    o, lse = outputs(framework, q, v, name(q))
    stream = framework.stream(q)
    tensors = (q, k, v, o, lse)
    call = _native.fp8_call(tensors, causal, scale, incoherent, scales, accumulate, exponential, seed, all_at_once, stream)
    call.run(framework.empty(q, (call.workspace_bytes,), "uint8"))
    return o, lse


def quantize(
    framework: Any,
    q: Any,
    k: Any,
    v: Any,
    incoherent: bool,
    scales: str,
    accumulate: str,
    seed: int,
    all_at_once: bool,
    code: str,
) -> tuple[Any, ...]:
    """Codes and scales."""
    d, keys, dv = q.shape[-1], k.shape[1], v.shape[-1]
    written = parts(framework, q, k, v, scales, accumulate, code)
    block = key_block(d, dv, keys, accumulate)
    quantizer = _native.quantizer((q, k, v), incoherent, scales, block, seed, all_at_once, framework.stream(q))
    quantizer.run(written[:3], written[3:], framework.empty(q, (quantizer.workspace_bytes,), "uint8"))
    return written


def planned(
    framework: Any,
    call: Call,
    causal: bool,
    scale: float | None,
    into: tuple[Any, Any] | None = None,
    schedule: _native.Schedule | None = None,
) -> _native.Fp8Call:
    """The plan of a call, into O and LSE; by a schedule of the caller's own, where one is given."""
    q, k, v = call.tensors
    o, lse = outputs(framework, q, v, call.out, call.codes) if into is None else into
    block = key_block(q.shape[-1], v.shape[2], k.shape[1], call.accumulate) if call.codes else None
    stream, tensors = framework.stream(q), (q, k, v, o, lse)
    how = (call.accumulate, call.exponential)
    return _native.quantized_call(tensors, call.scales, causal, scale, *how, block, call.rotation, stream, schedule)


def attention_quantized(
    framework: Any, call: Call, causal: bool, scale: float | None, schedule: _native.Schedule | None = None
) -> tuple[Any, Any]:
    """O and LSE over K and V of 8 bits."""
    q, _, v = call.tensors
    o, lse = outputs(framework, q, v, call.out, call.codes)
    plan = planned(framework, call, causal, scale, (o, lse), schedule)
    needs = plan.workspace_bytes
    plan.run(framework.empty(q, (needs,), "uint8") if needs else None)
    return o, lse


class Plain:
    """A framework without operators of its own, as everything but torch is. Codes are bytes."""

    def __init__(self, framework: Any) -> None:
        """Of the module that allocates."""
        self._framework = framework

    def attention_fp8(self, *arguments: Any) -> tuple[Any, Any]:
        """O and LSE."""
        return attention_fp8(self._framework, *arguments)

    def quantize(self, *arguments: Any) -> tuple[Any, ...]:
        """Codes and scales."""
        return quantize(self._framework, *arguments, code="uint8")

    def attention_quantized(self, call: Call, causal: bool, scale: float | None) -> tuple[Any, Any]:
        """O and LSE."""
        return attention_quantized(self._framework, call, causal, scale)
