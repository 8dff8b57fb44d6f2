"""Attention for Hopper GPUs, from kernels that Rust generated, on torch tensors and whatever speaks DLPack.

    import torch, tilewright

    q = torch.randn(2, 4096, 16, 128, device="cuda", dtype=torch.bfloat16)
    k = v = torch.randn(2, 4096, 4, 128, device="cuda", dtype=torch.bfloat16)
    o = tilewright.attention(q, k, v, causal=True)

Importing needs no GPU and no torch; a call says what is missing.
"""

from ._call import attention, explain, predict, reserve_counters, warm_up
from ._native import DeviceArray, Prediction
from ._native import version as __version__
from .errors import DeviceError, Error, InvalidArgument, NotSupported, ScheduleError
from .flash import flash_attn_func
from .fp8 import Quantized, attention_fp8, attention_quantized, quantize
from .hub import register_with_transformers
from .schedules import Compiled, compile
from .torch_sdpa import sdpa
from .tuning import use_tuning

__all__ = [
    "Compiled",
    "DeviceArray",
    "DeviceError",
    "Error",
    "InvalidArgument",
    "NotSupported",
    "Prediction",
    "Quantized",
    "ScheduleError",
    "__version__",
    "attention",
    "attention_fp8",
    "attention_quantized",
    "compile",
    "explain",
    "flash_attn_func",
    "predict",
    "quantize",
    "register_with_transformers",
    "reserve_counters",
    "sdpa",
    "use_tuning",
    "warm_up",
]

# Where torch is there already, its operators are too, so that they can be found by their names alone.
import sys as _sys

if "torch" in _sys.modules:
    from . import _torch as _torch
    from . import _torch_fp8 as _torch_fp8
