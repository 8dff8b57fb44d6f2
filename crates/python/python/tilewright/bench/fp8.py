"""The forward pass in 8 bits: the attention alone on codes that are there, and the road from bfloat16 and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import tilewright

from . import peers, predicted, report
from .ceilings import product_fp8
from .cells import Cell
from .run import Run
from .timing import burst, graphed

#: Who takes 8 bits; torch's own attention does not.
TAKERS = (peers.OURS, "fa3", "fa4")
#: Roundings in one graph.
COPIES = 4


def _alone(cell: Cell, names: list[str]) -> tuple[dict[str, peers.Call], dict[str, str], dict[str, Any]]:
    """Replays of the attention kernels alone: ours on codes with scales by block, peers' on codes with scales of 1."""
    tensors = peers.inputs(cell)
    eight = tuple(x.to(peers.DTYPES["fp8"]) for x in tensors)
    makers = {name: partial(peers.MAKERS[name], *eight, cell.causal) for name in names if name != peers.OURS}
    said = {}
    if peers.OURS in names:
        parts = tilewright.quantize(*tensors)
        said = predicted.fields(tilewright.predict(parts, causal=cell.causal), cell.flops)
        makers[peers.OURS] = lambda: partial(tilewright.attention_quantized, parts, causal=cell.causal)
    calls, left_out = peers.tried(makers)
    graphs = {}
    # Ours first in every line. By replay, since a launch may cost the host as much as the device.
    for name in [name for name in names if name in calls]:
        try:
            graphs[name] = graphed(calls[name])
        except Exception as why:
            left_out[name] = f"in a graph: {peers.reason(why)}"
    return graphs, left_out, said


def alone(run: Run, cells: list[Cell]) -> None:
    """Everybody's kernel in turn, with the 8-bit matrix product among them."""
    title = "fp8 forward, the attention alone"
    report.heading(f"{title}: TFLOP/s, median of {run.rounds} rounds of {run.iterations} taken in turn")
    rows = run.results.setdefault("fp8_forward", [])
    names = [name for name in run.names if name in TAKERS]
    call, product_flops = product_fp8()
    product, refused = peers.tried({"matmul": lambda: call})
    report.refusals(refused)
    for cell in cells:
        if not run.has(6):
            run.skip(title, cell.label)
            continue
        calls, left_out, said = _alone(cell, names)
        ms = burst({**calls, **product}, run.rounds, run.iterations)
        flops = {name: product_flops if name == "matmul" else cell.flops for name in ms}
        rates = {name: round(flops[name] / taken / 1e9, 1) for name, taken in ms.items()}
        times = {name: round(taken, 4) for name, taken in ms.items()}
        row = {**cell.plain(), "dtype": "fp8", "ms": times, "tflops": rates, "ratio": report.ratio(rates)}
        rows.append({**row, "left_out": left_out, **said})
        report.line(cell.label, rates, left_out, more=predicted.words(rows[-1]))
        del calls
    torch.cuda.empty_cache()
    run.results["fp8_forward_means"] = report.means(rows)
    report.show_means(title, run.results["fp8_forward_means"])
    off = run.results["fp8_forward_prediction_error"] = predicted.errors(rows)
    if off is not None:
        report.say(f"{title}, predicted without calibration: median error {off['median']:.1%}, worst {off['worst']:.1%}")


def moved(cell: Cell) -> float:
    """Bytes that rounding reads and writes: 16 bits of each element of Q, K and V, and 8."""
    rows = cell.seqlen * cell.heads + 2 * cell.keys * cell.kv_heads
    return 3.0 * cell.batch * rows * cell.head_dim


def road(run: Run, cells: list[Cell]) -> None:
    """From bfloat16 to bfloat16: rounding and attention in 8 bits beside our own attention in bfloat16."""
    report.heading("from bfloat16 in 8 bits: ms of bfloat16 attention, of rounding + 8-bit attention, of rounding alone")
    rows = run.results.setdefault("fp8_road", [])
    copy = run.results.get("ceilings", {}).get("copy", {}).get("gbps")
    for cell in cells:
        if not run.has(6):
            run.skip("fp8 road", cell.label)
            continue
        tensors = peers.inputs(cell)
        calls = {
            "bf16": partial(tilewright.attention, *tensors, causal=cell.causal),
            "fp8": partial(tilewright.attention_fp8, *tensors, causal=cell.causal),
            # A call of it may cost the host more than the device.
            "quantize": graphed(partial(tilewright.quantize, *tensors), COPIES),
        }
        ms = burst(calls, run.rounds, run.iterations)
        ms = {name: round(taken / (COPIES if name == "quantize" else 1), 4) for name, taken in ms.items()}
        rate = round(moved(cell) / ms["quantize"] / 1e6, 1)
        rows.append({**cell.plain(), "ms": ms, "ratio": ms["bf16"] / ms["fp8"], "gbps": {"quantize": rate}})
        beside = f", {rate / copy:.2f} of the copy" if copy else ""
        report.say(
            f"{cell.label}  bf16 {ms['bf16']:7.3f}  fp8 {ms['fp8']:7.3f}  x {rows[-1]['ratio']:.3f}  "
            f"rounding {ms['quantize']:6.3f} = {rate:.0f} GB/s{beside}"
        )
        del calls, tensors
    torch.cuda.empty_cache()
    mean = report.geometric([row["ratio"] for row in rows])
    if mean is not None:
        run.results["fp8_road_mean"] = mean
        report.say(f"bfloat16 over 8 bits, geometric mean: {mean:.3f}")
