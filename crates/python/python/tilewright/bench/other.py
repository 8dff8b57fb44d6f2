"""What is not offered here yet, so that only peers are measured, and only when asked: BF16 backward."""

from __future__ import annotations

import torch

from . import peers, report
from .cells import grid
from .run import Run
from .timing import burst

#: Of what this package has no kernel.
NOT_OFFERED = ("bf16 backward",)
#: Lengths that peers are measured at.
LENGTHS = (1024, 4096, 16384)


def not_offered(run: Run) -> None:
    """Says so."""
    run.results["not_offered"] = list(NOT_OFFERED)
    report.heading("not offered")
    report.say(f"tilewright has no {' and no '.join(NOT_OFFERED)}. The peers' figures: --peers-only")


def measure(run: Run) -> None:
    """The peers' figures."""
    names = [name for name in run.names if name != peers.OURS]
    report.heading("bf16 backward, peers alone: TFLOP/s")
    rows = run.results.setdefault("bf16_backward", [])
    for cell in run.cells("bf16 backward", grid(LENGTHS), 8):
        calls, left_out = peers.backward_calls(cell, names, peers.inputs(cell))
        ms = burst(calls, run.rounds, run.iterations)
        rates = {name: round(cell.flops * 2.5 / taken / 1e9, 1) for name, taken in ms.items()}
        rows.append({**cell.plain(), "tflops": rates, "left_out": left_out})
        report.line(cell.label, rates, left_out)
        del calls
    torch.cuda.empty_cache()
