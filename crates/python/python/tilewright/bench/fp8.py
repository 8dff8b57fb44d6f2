"""The forward pass in 8 bits: the attention alone on codes that are there, and the road from bfloat16 and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import tilewright

from . import peers, predicted, report
from .ceilings import product_fp8
from .cells import Cell
from .names import ACCURATE, LINEAR, OURS
from .run import Run
from .timing import burst, graphed

#: Who takes 8 bits; torch's own attention does not.
TAKERS = (OURS, "fa3", "fa4")
#: Which of ours a mean is of, by its key in the results and in words: exact exponentials, linear ones, whichever of all
#: three is the fastest in a cell.
MEANS = {
    "fp8_forward_means": ((OURS,), ""),
    "fp8_forward_linear_means": ((LINEAR,), ", P linear"),
    "fp8_forward_fastest_means": ((OURS, LINEAR, ACCURATE), ", whichever is the fastest"),
}
#: Bfloat16 over 8 bits, by whose time is under the line.
RATIOS = {"ratio": "fp8", "ratio_linear": "fp8_linear"}


def _ours(cell: Cell, parts: tilewright.Quantized) -> dict[str, Callable[[], peers.Call]]:
    """Ours as it is, with P linear and with accurate sums, over the same codes; a refusal where there is no schedule."""

    def make(**how: str) -> peers.Call:
        asked = parts._replace(**how)
        chosen = (tilewright.predict(one, causal=cell.causal).schedule for one in (asked, parts))
        if how and len(set(chosen)) == 1:
            raise NotImplementedError("no schedule of its own")
        return partial(tilewright.attention_quantized, asked, causal=cell.causal)

    return {
        OURS: make,
        LINEAR: partial(make, exponential="linear"),
        ACCURATE: partial(make, accumulate="accurate"),
    }


def _alone(cell: Cell, names: list[str]) -> tuple[dict[str, peers.Call], dict[str, str], dict[str, Any]]:
    """Replays of the attention kernels alone: ours on codes with scales by block, peers' on codes with scales of 1."""
    tensors = peers.inputs(cell)
    eight = tuple(x.to(peers.DTYPES["fp8"]) for x in tensors)
    makers = {name: partial(peers.MAKERS[name], *eight, cell.causal) for name in names if name != OURS}
    said = {}
    if OURS in names:
        parts = tilewright.quantize(*tensors)
        said = predicted.fields(tilewright.predict(parts, causal=cell.causal), cell.flops)
        # Ours first in every line.
        makers = {**_ours(cell, parts), **makers}
    calls, left_out = peers.tried(makers)
    graphs = {}
    # By replay, since a launch may cost the host as much as the device.
    for name, call in calls.items():
        try:
            graphs[name] = graphed(call)
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
    for cell in run.cells(title, cells, 6):
        calls, left_out, said = _alone(cell, names)
        ms = burst({**calls, **product}, run.rounds, run.iterations)
        flops = {name: product_flops if name == "matmul" else cell.flops for name in ms}
        rates = {name: round(flops[name] / taken / 1e9, 1) for name, taken in ms.items()}
        times = {name: round(taken, 4) for name, taken in ms.items()}
        row = {**cell.plain(), "dtype": "fp8", "ms": times, "tflops": rates, "ratio": report.ratio(rates)}
        linear = row["ratio_linear"] = report.ratio(rates, (LINEAR,))
        rows.append({**row, "left_out": left_out, **said})
        more = ["" if linear is None else f"linear {linear:5.3f}", predicted.words(rows[-1])]
        report.line(cell.label, rates, left_out, more=" | ".join(filter(None, more)))
        del calls
    torch.cuda.empty_cache()
    for key, (ours, words) in MEANS.items():
        run.results[key] = report.means(rows, ours=ours)
        report.show_means(f"{title}{words}", run.results[key])
    off = run.results["fp8_forward_prediction_error"] = predicted.errors(rows)
    if off is not None:
        report.say(f"{title}, predicted without calibration: median error {off['median']:.1%}, worst {off['worst']:.1%}")


def road(run: Run, cells: list[Cell]) -> None:
    """From bfloat16 to bfloat16: rounding and attention in 8 bits beside our own attention in bfloat16."""
    report.heading(
        "from bfloat16 in 8 bits: ms of bfloat16 attention, of rounding + 8-bit attention with P exact and linear"
    )
    rows = run.results.setdefault("fp8_road", [])
    for cell in run.cells("fp8 road", cells, 6):
        tensors = peers.inputs(cell)
        eight = partial(tilewright.attention_fp8, *tensors, causal=cell.causal)
        calls = {"bf16": partial(tilewright.attention, *tensors, causal=cell.causal), "fp8": eight}
        try:
            _ours(cell, tilewright.quantize(*tensors))[LINEAR]()
            calls["fp8_linear"] = partial(eight, exponential="linear")
        except NotImplementedError:
            pass
        ms = burst(calls, run.rounds, run.iterations)
        ms = {name: round(taken, 4) for name, taken in ms.items()}
        ratios = {key: ms["bf16"] / ms[name] for key, name in RATIOS.items() if name in ms}
        rows.append({**cell.plain(), "ms": ms, **ratios})
        linear = f"  linear {ms['fp8_linear']:7.3f}  x {ratios['ratio_linear']:.3f}" if "ratio_linear" in ratios else ""
        report.say(f"{cell.label}  bf16 {ms['bf16']:7.3f}  fp8 {ms['fp8']:7.3f}  x {ratios['ratio']:.3f}{linear}")
        del calls, eight, tensors
    torch.cuda.empty_cache()
    both = [row for row in rows if "ratio_linear" in row]
    for key, ratio, some, where in (
        ("fp8_road_mean", "ratio", rows, ""),
        ("fp8_road_mean_beside_linear", "ratio", both, " where P may be linear, exact"),
        ("fp8_road_linear_mean", "ratio_linear", both, " where P may be linear, linear"),
    ):
        mean = report.geometric([row[ratio] for row in some])
        if mean is not None:
            run.results[key] = mean
            report.say(f"bfloat16 over 8 bits{where}, geometric mean: {mean:.3f}")
