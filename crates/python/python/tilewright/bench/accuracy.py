"""Relative error of O and LSE against float64, of everybody on the same input: normal data, and data with outliers."""

from __future__ import annotations

import torch
from torch import Tensor

import tilewright

from . import peers, report
from .cells import Cell
from .run import Run

#: Share of outliers, and their standard deviation, as in the FlashAttention-3 paper.
OUTLIERS, DEVIATION = 0.001, 10.0


def _data(shape: tuple[int, ...], outliers: bool) -> Tensor:
    """Normal, with rare large values where asked; in bfloat16."""
    data = torch.randn(shape, device="cuda")
    if outliers:
        data += torch.randn(shape, device="cuda") * DEVIATION * (torch.rand(shape, device="cuda") < OUTLIERS)
    return data.to(torch.bfloat16)


def exact(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """O `[B, S, H, D]` and LSE `[B, H, S]` in float64, of equally many heads."""
    qd, kd, vd = (x.transpose(1, 2).double() for x in (q, k, v))
    scores = qd @ kd.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(columns - rows + 1)
        scores.masked_fill_(hidden, -float("inf"))
    return (torch.softmax(scores, -1) @ vd).transpose(1, 2), torch.logsumexp(scores, -1)


def error(found: Tensor, reference: Tensor) -> float:
    """‖found - reference‖ / ‖reference‖."""
    return ((found.double() - reference).norm() / reference.norm()).item()


def _with_lse(name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor | None]:
    """O and, where it is to be had, LSE."""
    if name == peers.OURS:
        return tilewright.attention(q, k, v, causal=causal, return_lse=True)
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    if name == "cudnn":
        out, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(qt, kt, vt, None, True, 0.0, causal)[:2]
        return out.transpose(1, 2), lse
    if name == "fa2":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention(qt, kt, vt, 0.0, causal)[:2]
        return out.transpose(1, 2), lse
    if name == "fa3":
        import fa3_fwd_interface as fa3

        found = fa3.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    else:
        from flash_attn.cute import flash_attn_func

        found = flash_attn_func(q, k, v, causal=causal, return_lse=True)
    return found[:2] if isinstance(found, tuple) else (found, None)


def measure(run: Run, dims: tuple[int, ...]) -> None:
    """One table: head dimension, mask and data down, everybody across."""
    report.heading("relative error against float64, batch 2, 4 heads, 1,024 rows: O / LSE")
    rows = run.results.setdefault("accuracy", [])
    for d in dims:
        for causal in (False, True):
            for outliers in (False, True):
                if not run.has(6):
                    run.skip("accuracy", f"d{d}")
                    continue
                tensors = [_data((2, 1024, 4, d), outliers) for _ in range(3)]
                o, lse = exact(*tensors, causal)
                errors, left_out = {}, {}
                for name in run.names:
                    try:
                        found, found_lse = _with_lse(name, *tensors, causal)
                        lse_error = None if found_lse is None else error(found_lse.reshape(lse.shape), lse)
                        errors[name] = {"o": error(found, o), "lse": lse_error}
                    except Exception as why:
                        left_out[name] = peers.reason(why)
                data = "outliers" if outliers else "normal"
                cell = Cell(d, causal, 1024, 2, 4, 4, 1024)
                rows.append({**cell.plain(), "data": data, "errors": errors, "left_out": left_out})
                shown = (
                    f"{name} {e['o']:.2e}/" + ("-" if e["lse"] is None else f"{e['lse']:.1e}") for name, e in errors.items()
                )
                report.say(f"d{d:<3} {cell.mask:<6} {data:<8}  " + "  ".join(shown))
                report.refusals(left_out)
