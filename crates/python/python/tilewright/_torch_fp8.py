"""Torch's side of 8-bit attention: operators for what traces, past which a plain call goes, as in `_torch`."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _fp8, _torch
from ._torch import traced
from .errors import NotSupported

#: The type of codes.
CODE = "float8_e4m3fn"


@torch.library.custom_op("tilewright::attention_fp8", mutates_args=())
def _attention_fp8(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    incoherent: bool,
    scales: str,
    accumulate: str,
    exponential: str,
    seed: int,
    all_at_once: bool,
) -> tuple[Tensor, Tensor]:
    """O and LSE."""
    return _fp8.attention_fp8(
        _torch, q, k, v, causal, scale, incoherent, scales, accumulate, exponential, seed, all_at_once
    )


@_attention_fp8.register_fake
def _attention_fp8_fake(q, k, v, causal, scale, incoherent, scales, accumulate, exponential, seed, all_at_once):
    return _fp8.outputs(_torch, q, v, _fp8.name(q))


@torch.library.custom_op("tilewright::quantize", mutates_args=())
def _quantize(
    q: Tensor, k: Tensor, v: Tensor, incoherent: bool, scales: str, accumulate: str, seed: int, all_at_once: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Codes and scales."""
    return _fp8.quantize(_torch, q, k, v, incoherent, scales, accumulate, seed, all_at_once, CODE)


@_quantize.register_fake
def _quantize_fake(q, k, v, incoherent, scales, accumulate, seed, all_at_once):
    return _fp8.parts(_torch, q, k, v, scales, accumulate, CODE)


@torch.library.custom_op("tilewright::attention_quantized", mutates_args=())
def _attention_quantized(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_scale: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    causal: bool,
    scale: float | None,
    accumulate: str,
    out: str,
    codes: bool,
    rotation: int | None,
    exponential: str,
) -> tuple[Tensor, Tensor]:
    """O and LSE."""
    call = _fp8.Call((q, k, v), (q_scale, k_scale, v_scale), accumulate, out, codes, rotation, exponential)
    return _fp8.attention_quantized(_torch, call, causal, scale)


@_attention_quantized.register_fake
def _attention_quantized_fake(
    q, k, v, q_scale, k_scale, v_scale, causal, scale, accumulate, out, codes, rotation, exponential
):
    return _fp8.outputs(_torch, q, v, out, codes)


def _backward(ctx, *gradients):
    raise NotSupported(
        "attention in 8 bits has no backward pass: call it under torch.no_grad() or torch.inference_mode(), or compute "
        "what needs gradients with torch.nn.functional.scaled_dot_product_attention"
    )


for _operator in (_attention_fp8, _quantize, _attention_quantized):
    _operator.register_autograd(_backward)


def attention_fp8(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    incoherent: bool,
    scales: str,
    accumulate: str,
    exponential: str,
    seed: int,
    all_at_once: bool,
) -> tuple[Tensor, Tensor]:
    """O and LSE of tensors of 16 bits `[B, S, H, D]`."""
    if traced(q, k, v):
        return _attention_fp8(q, k, v, causal, scale, incoherent, scales, accumulate, exponential, seed, all_at_once)
    return _fp8.attention_fp8(
        _torch, q, k, v, causal, scale, incoherent, scales, accumulate, exponential, seed, all_at_once
    )


def quantize(
    q: Tensor, k: Tensor, v: Tensor, incoherent: bool, scales: str, accumulate: str, seed: int, all_at_once: bool
) -> tuple[Tensor, ...]:
    """Codes of Q, K and V, and their scales."""
    if traced(q, k, v):
        return _quantize(q, k, v, incoherent, scales, accumulate, seed, all_at_once)
    return _fp8.quantize(_torch, q, k, v, incoherent, scales, accumulate, seed, all_at_once, CODE)


def attention_quantized(call: _fp8.Call, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """O and LSE over K and V of 8 bits."""
    if traced(*call.tensors):
        rest = (call.accumulate, call.out, call.codes, call.rotation, call.exponential)
        return _attention_quantized(*call.tensors, *call.scales, causal, scale, *rest)
    return _fp8.attention_quantized(_torch, call, causal, scale)
