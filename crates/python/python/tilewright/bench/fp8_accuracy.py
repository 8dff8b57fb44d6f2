"""What 8 bits cost in accuracy, against float64: the FlashAttention-3 paper's test, and long rows of values of one sign."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

import tilewright

from . import peers, report
from .accuracy import error, exact
from .run import Run

#: Head dimension, heads and query rows of every cell; the keys differ.
HEAD_DIM, HEADS, ROWS = 128, 4, 1024
#: Inputs drawn for each length of the paper's test: few rows hold most of the error, so that one draw says little.
DRAWS = 8
#: Share of outliers, and their standard deviation, as in the FlashAttention-3 paper.
OUTLIERS, DEVIATION = 0.001, 10.0
#: Keys of the long rows, and query rows over them.
LONG, LONG_ROWS = (4096, 131072), 128

Tensors = tuple[Tensor, Tensor, Tensor]


def _paper(keys: int) -> Tensors:
    """N(0, 1) + N(0, 100) Bernoulli(0.001), in bfloat16."""

    def one(rows: int) -> Tensor:
        shape = (1, rows, HEADS, HEAD_DIM)
        data = torch.randn(shape, device="cuda")
        data += torch.randn(shape, device="cuda") * DEVIATION * (torch.rand(shape, device="cuda") < OUTLIERS)
        return data.to(torch.bfloat16)

    return one(ROWS), one(keys), one(keys)


def _fa3(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """FlashAttention-3 in e4m3 with a scale for each tensor."""
    import fa3_fwd_interface as fa3

    codes, scales = [], []
    for x in (q, k, v):
        scale = x.float().abs().amax() / 448
        codes.append((x.float() / scale).to(torch.float8_e4m3fn))
        scales.append(scale.expand(k.shape[0], k.shape[2]).contiguous())
    found = fa3.flash_attn_func(*codes, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2])
    return found[0] if isinstance(found, tuple) else found


#: What is measured on the paper's data.
PAPER: dict[str, Callable[..., Tensor]] = {
    "bf16": tilewright.attention,
    "fp8": tilewright.attention_fp8,
    "fp8_linear": lambda q, k, v: tilewright.attention_fp8(q, k, v, exponential="linear"),
    "fp8_accurate": lambda q, k, v: tilewright.attention_fp8(q, k, v, accumulate="accurate"),
    "fp8_unrotated": lambda q, k, v: tilewright.attention_fp8(q, k, v, incoherent=False),
    "fp8_head": lambda q, k, v: tilewright.attention_fp8(q, k, v, scales="head"),
    "fp8_tensor": lambda q, k, v: tilewright.attention_fp8(q, k, v, scales="tensor"),
    "fp8_plain": lambda q, k, v: tilewright.attention_fp8(q, k, v, scales="tensor", incoherent=False),
    "fa3": _fa3,
}
#: What is measured on long rows.
SUMS: dict[str, Callable[..., Tensor]] = {
    "bf16": tilewright.attention,
    "fast": tilewright.attention_fp8,
    "linear": lambda q, k, v: tilewright.attention_fp8(q, k, v, exponential="linear"),
    "accurate": lambda q, k, v: tilewright.attention_fp8(q, k, v, accumulate="accurate"),
    "fa3": _fa3,
}


def _held(run: Run, callers: dict[str, Callable[..., Tensor]], tensors: Tensors, judge: Callable[..., float]):
    """Everybody's error on these inputs, and why it is missing."""
    errors, left_out = {}, {}
    reference, _ = exact(*tensors, False)
    for name, call in callers.items():
        if name in peers.PACKAGES and name not in run.names:
            continue
        try:
            errors[name] = judge(call(*tensors), reference)
        except Exception as why:
            left_out[name] = peers.reason(why)
    return errors, left_out


def rmse(found: Tensor, reference: Tensor) -> float:
    """The root of the mean square of the difference."""
    return (found.double() - reference).square().mean().sqrt().item()


def measure(run: Run, keys: tuple[int, ...]) -> None:
    """Both tables."""
    report.heading(
        f"fp8, the FlashAttention-3 paper's test: RMSE against float64, d{HEAD_DIM}, {HEADS} heads of {ROWS} rows, "
        f"{DRAWS} draws"
    )
    _table(run, "fp8_accuracy", PAPER, [(n, _paper) for n in keys], rmse, DRAWS)
    report.heading("fp8, long rows of values of one sign: relative error against float64")
    _table(run, "fp8_long", SUMS, [(n, _positive) for n in LONG], error)


def _positive(keys: int) -> Tensors:
    """Normal Q and K, V of their magnitudes."""

    def one(rows: int) -> Tensor:
        return torch.randn(1, rows, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16)

    return one(LONG_ROWS), one(keys), one(keys).abs()


def _table(
    run: Run,
    section: str,
    callers: dict[str, Callable[..., Tensor]],
    cells: list[tuple[int, Callable[[int], Tensors]]],
    judge: Callable[..., float],
    draws: int = 1,
) -> None:
    """A row of errors for each cell: of so many draws the root of the mean square."""
    rows = run.results.setdefault(section, [])
    for keys, make in cells:
        if not run.has(5):
            run.skip(section, f"{keys} keys")
            continue
        drawn = [_held(run, callers, make(keys), judge) for _ in range(draws)]
        left_out = {name: why for _, missing in drawn for name, why in missing.items()}
        errors = {
            name: math.sqrt(statistics.fmean(errors[name] ** 2 for errors, _ in drawn))
            for name in drawn[0][0]
            if name not in left_out
        }
        rows.append({"head_dim": HEAD_DIM, "keys": keys, "heads": HEADS, "figures": errors, "left_out": left_out})
        report.say(f"{keys:>6} keys  " + "  ".join(f"{name} {figure:.2e}" for name, figure in errors.items()))
        report.refusals(left_out)
    torch.cuda.empty_cache()
