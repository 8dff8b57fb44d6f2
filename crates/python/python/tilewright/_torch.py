"""Torch tensors: outputs from torch's allocator, work on torch's current stream, an operator for what traces.

The operator `tilewright::attention` is what `torch.compile`, fake tensors and autograd see. A plain call goes past it: the
dispatch of an operator written in Python takes longer than a small launch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _native
from ._refuse import refuse
from .errors import InvalidArgument, NotSupported

#: Types whose memory can be taken as it is; any other is a wrapper that only an operator may look into.
PLAIN = (torch.Tensor, torch.nn.Parameter)

#: The address of the current stream of a device: torch's own short way, or else the public one.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def stream(tensor: Tensor) -> int:
    """The address of the current stream of the tensor's device; 0 is the default stream."""
    if not tensor.is_cuda:
        return 0
    device = tensor.device
    return _raw_stream(device.index) if _raw_stream is not None else torch.cuda.current_stream(device).cuda_stream


def outputs(q: Tensor, v: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """O `[B, Sq, Hq, Dv]`, unless given, and LSE float32 `[B, Hq, Sq]`, not initialised."""
    shape = q.shape
    if len(shape) != 4:
        raise InvalidArgument(f"tensor q has {len(shape)} dimensions, expected 4: [B, Sq, Hq, D]")
    b, s, h, _ = shape
    if out is None:
        out = q.new_empty((b, s, h, v.shape[-1]))
    return out, q.new_empty((b, h, s), dtype=torch.float32)


def empty(like: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
    """A tensor from the caching allocator on the device of another, of the type of that name, not initialised."""
    return like.new_empty(shape, dtype=getattr(torch, dtype))


def run(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, out: Tensor | None, schedule: Any = None):
    """Launches on the current stream. O and LSE."""
    out, lse = outputs(q, v, out)
    _native.run(q, k, v, out, lse, causal, scale, stream(q), schedule)
    return out, lse


@torch.library.custom_op("tilewright::attention", mutates_args=())
def operator(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """O and LSE."""
    return run(q, k, v, causal, scale, None)


@operator.register_fake
def _fake(q, k, v, causal, scale):
    return outputs(q, v)


def _backward(ctx, *gradients):
    raise NotSupported(
        "tilewright::attention has no backward pass: call it under torch.no_grad() or torch.inference_mode(), or compute "
        "what needs gradients with torch.nn.functional.scaled_dot_product_attention"
    )


operator.register_autograd(_backward)


def traced(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether somebody must see an operator: a compiler, a mode of wrapped tensors, autograd."""
    if torch.compiler.is_dynamo_compiling():
        return True
    if type(q) not in PLAIN or type(k) not in PLAIN or type(v) not in PLAIN:
        return True
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, out: Tensor | None, schedule: Any = None
) -> tuple[Tensor, Tensor]:
    """O and LSE of tensors `[B, S, H, D]`."""
    if not traced(q, k, v):
        return run(q, k, v, causal, scale, out, schedule)
    if out is not None:
        raise refuse("attention", "out", out, "a call that is compiled or recorded for gradients makes its own output")
    if schedule is not None:
        raise refuse("attention", "schedule", schedule, "a call that is compiled or recorded for gradients chooses its own")
    return operator(q, k, v, causal, scale)
