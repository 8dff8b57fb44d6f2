"""The forward pass on the paper's grid and on grouped heads: bursts in turn, and everybody alone for long."""

from __future__ import annotations

from typing import Any

import torch

import tilewright

from . import peers, predicted, report
from .ceilings import product
from .cells import Cell
from .run import Run
from .timing import burst, sustained


def _row(cell: Cell, ms: dict[str, float], left_out: dict[str, str], flops: dict[str, float]) -> dict[str, Any]:
    rates = {name: round(flops.get(name, cell.flops) / taken / 1e9, 1) for name, taken in ms.items()}
    return {
        **cell.plain(),
        "ms": {name: round(taken, 4) for name, taken in ms.items()},
        "tflops": rates,
        "ratio": report.ratio(rates),
        "left_out": left_out,
    }


def _prediction(run: Run, cell: Cell, tensors: tuple[Any, Any, Any]) -> dict[str, Any]:
    """What the cost model says of ours; nothing where ours is not measured."""
    if peers.OURS not in run.names:
        return {}
    return predicted.fields(tilewright.predict(*tensors, causal=cell.causal), cell.flops)


def bursts(run: Run, cells: list[Cell], section: str, title: str) -> None:
    """Everybody in turn, round by round, with the matrix product among them."""
    report.heading(f"{title}: TFLOP/s, median of {run.rounds} rounds of {run.iterations} taken in turn")
    rows = run.results.setdefault(section, [])
    call, flops = product()
    for cell in run.cells(section, cells, 6):
        tensors = peers.inputs(cell)
        calls, left_out = peers.calls(cell, run.names, tensors)
        ms = burst({**calls, "matmul": call}, run.rounds, run.iterations)
        rows.append({**_row(cell, ms, left_out, {"matmul": flops}), **_prediction(run, cell, tensors)})
        report.line(cell.label, rows[-1]["tflops"], left_out, more=predicted.words(rows[-1]))
        del calls, tensors
    torch.cuda.empty_cache()
    run.results[f"{section}_means"] = report.means(rows)
    report.show_means(title, run.results[f"{section}_means"])
    off = run.results[f"{section}_prediction_error"] = predicted.errors(rows)
    if off is not None:
        report.say(f"{title}, predicted by the cost model: median error {off['median']:.1%}, worst {off['worst']:.1%}")


def alone(run: Run, cells: list[Cell], best_of: int | None) -> None:
    """Each alone for a second and a half, with clock and watts; of the peers only the fastest few of a short burst."""
    report.heading("sustained, each alone for 1.5 s: TFLOP/s, SM clock, watts, TFLOP/s per watt")
    rows = run.results.setdefault("sustained", [])
    for cell in run.cells("sustained", cells, 16):
        calls, left_out = peers.calls(cell, run.names, peers.inputs(cell))
        if best_of is not None:
            quick = burst(calls, 1, 5)
            fastest = sorted((name for name in calls if name != peers.OURS), key=lambda name: quick[name])[:best_of]
            calls = {name: call for name, call in calls.items() if name == peers.OURS or name in fastest}
        rates, held = {}, {}
        for name, call in calls.items():
            held[name] = sustained(call)
            rates[name] = round(cell.flops / held[name]["ms"] / 1e9, 1)
            if "watts" in held[name]:
                held[name]["tflops_per_watt"] = round(rates[name] / held[name]["watts"], 4)
        found = report.ratio(rates)
        rows.append({**cell.plain(), "tflops": rates, "held": held, "ratio": found, "left_out": left_out})
        report.line(cell.label, rates, left_out)
        for name, h in held.items():
            if "mhz" in h:
                report.say(f"    {name:<10} {h['mhz']:5.0f} MHz {h['watts']:5.0f} W {h['tflops_per_watt']:.3f} TFLOP/s/W")
        del calls
    torch.cuda.empty_cache()
    run.results["sustained_means"] = report.means(rows)
    report.show_means("sustained", run.results["sustained_means"])
