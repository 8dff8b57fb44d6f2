"""One decoding step: one query row over a long cache, as one CUDA graph replay. The cache's bytes are the work."""

from __future__ import annotations

import torch

from . import peers, report
from .cells import Cell
from .run import Run
from .timing import burst, graphed


def measure(run: Run, cells: list[Cell]) -> None:
    """Microseconds and GB/s of K and V read."""
    report.heading("decoding, one query row: GB/s of K and V read, by CUDA graph replay")
    report.say("tilewright has no kernel for it: its figure is the forward pass, one tile of which is one row")
    rows = run.results.setdefault("decode", [])
    for cell in run.cells("decode", cells, 10):
        calls, left_out = peers.calls(cell, run.names, peers.inputs(cell))
        graphs = {}
        for name, call in calls.items():
            try:
                graphs[name] = graphed(call)
            except Exception as why:
                left_out[name] = f"in a graph: {peers.reason(why)}"
        ms = burst(graphs, run.rounds, run.iterations)
        moved = 2.0 * cell.batch * cell.keys * cell.kv_heads * cell.head_dim * 2
        rates = {name: round(moved / taken / 1e6, 1) for name, taken in ms.items()}
        us = {name: round(taken * 1e3, 2) for name, taken in ms.items()}
        rows.append({**cell.plain(), "us": us, "gbps": rates, "ratio": report.ratio(rates), "left_out": left_out})
        report.line(cell.label, rates, left_out, digits=0)
        del calls, graphs
    torch.cuda.empty_cache()
    run.results["decode_means"] = report.means(rows, "gbps")
