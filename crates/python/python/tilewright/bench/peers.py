"""Who is measured: attention here, and whatever else of attention imports. A peer that refuses says why."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import tilewright

from .cells import Cell
from .names import OURS

Call = Callable[[], object]

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}


def inputs(cell: Cell) -> tuple[Tensor, Tensor, Tensor]:
    """Normal random Q, K and V in [B, S, H, D]."""
    base = torch.float16 if cell.dtype == "fp16" else torch.bfloat16

    def one(tokens: int, heads: int) -> Tensor:
        return torch.randn(cell.batch, tokens, heads, cell.head_dim, device="cuda", dtype=base).to(DTYPES[cell.dtype])

    return one(cell.seqlen, cell.heads), one(cell.keys, cell.kv_heads), one(cell.keys, cell.kv_heads)


def _sdpa(backend: SDPBackend) -> Callable[..., Call]:
    def make(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
        # One query sees every key: torch's top-left alignment would hide all but the first.
        qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
        masked, gqa = causal and q.shape[1] > 1, q.shape[2] != k.shape[2]

        def call() -> Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(qt, kt, vt, is_causal=masked, enable_gqa=gqa).transpose(1, 2)

        return call

    return make


def _fa3(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
    import fa3_fwd_interface as fa3

    if q.dtype == torch.float8_e4m3fn:
        one = torch.ones(q.shape[0], k.shape[2], device=q.device)
        return lambda: fa3.flash_attn_func(q, k, v, causal=causal, q_descale=one, k_descale=one, v_descale=one)
    if q.shape[1] == 1:
        lengths = torch.full((q.shape[0],), k.shape[1], dtype=torch.int32, device=q.device)
        return lambda: fa3.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, causal=True, num_splits=0)
    return lambda: fa3.flash_attn_func(q, k, v, causal=causal)


def _fa4(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
    from flash_attn.cute import flash_attn_func

    if q.shape[1] == 1:
        return lambda: flash_attn_func(q, k, v, causal=True, num_splits=0)
    return lambda: flash_attn_func(q, k, v, causal=causal)


def _ours(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
    return lambda: tilewright.attention(q, k, v, causal=causal)


MAKERS: dict[str, Callable[..., Call]] = {
    OURS: _ours,
    "cudnn": _sdpa(SDPBackend.CUDNN_ATTENTION),
    "fa2": _sdpa(SDPBackend.FLASH_ATTENTION),
    "fa3": _fa3,
    "fa4": _fa4,
}


def reason(why: Exception) -> str:
    """An exception in one line."""
    text = str(why).strip().splitlines()
    return f"{type(why).__name__}: {text[0][:160]}" if text else type(why).__name__


def tried(makers: dict[str, Callable[[], Call]]) -> tuple[dict[str, Call], dict[str, str]]:
    """What each is called by, tried once, and the reasons of those that refuse: a refusal is a fact, not a failure."""
    found: dict[str, Call] = {}
    left_out: dict[str, str] = {}
    for name, make in makers.items():
        try:
            call = make()
            call()
            torch.cuda.synchronize()
            found[name] = call
        except Exception as why:
            left_out[name] = reason(why)
    return found, left_out


def calls(cell: Cell, names: list[str], tensors: tuple[Tensor, Tensor, Tensor]) -> tuple[dict[str, Call], dict[str, str]]:
    """Everybody's call on these tensors."""
    return tried({name: partial(MAKERS[name], *tensors, cell.causal) for name in names})


def _backward(name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool, gradient: Tensor) -> Call:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    if name not in ("cudnn", "fa2", "fa4"):
        raise NotImplementedError(f"{name} has no backward pass")
    out = MAKERS[name](q, k, v, causal)()
    out = out[0] if isinstance(out, tuple) else out
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


def backward_calls(
    cell: Cell, names: list[str], tensors: tuple[Tensor, Tensor, Tensor]
) -> tuple[dict[str, Call], dict[str, str]]:
    """The same for the backward pass alone."""
    gradient = torch.randn_like(tensors[0])
    return tried({name: partial(_backward, name, *tensors, cell.causal, gradient) for name in names})


#: The packages that a peer is made of.
PACKAGES = {
    OURS: ("tilewright",),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
    "fa2": ("torch",),
    "fa3": ("fa3-fwd",),
    "fa4": (
        "flash-attn-4",
        "nvidia-cutlass-dsl",
        "nvidia-cutlass-dsl-libs-base",
        "nvidia-cutlass-dsl-libs-core",
        "nvidia-cutlass-dsl-libs-cu13",
        "quack-kernels",
        "apache-tvm-ffi",
    ),
}


def versions() -> dict[str, str]:
    """Package and version of everybody that is installed."""
    found = {}
    for name, packages in PACKAGES.items():
        for package in packages:
            try:
                found[name] = f"{package} {importlib.metadata.version(package)}"
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def megabytes() -> dict[str, Any]:
    """Installed size of everybody's packages, MB."""
    sizes = {}
    for name, packages in PACKAGES.items():
        total = 0
        for package in packages:
            try:
                files = importlib.metadata.files(package) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            for file in files:
                path = file.locate()
                total += path.stat().st_size if path.is_file() else 0
        if total:
            sizes[name] = round(total / 1e6, 1)
    return sizes
