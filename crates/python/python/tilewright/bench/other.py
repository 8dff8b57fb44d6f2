"""What is not offered here yet, so that only peers are measured, and only when asked: FP8 forward, BF16 backward."""

from __future__ import annotations

import torch

from . import peers, report
from .cells import grid
from .run import Run
from .timing import burst

#: Of what this package has no kernel.
NOT_OFFERED = ("fp8 forward", "bf16 backward")
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
    for title, dtype, backward in (("fp8 forward", "fp8", False), ("bf16 backward", "bf16", True)):
        report.heading(f"{title}, peers alone: TFLOP/s")
        rows = run.results.setdefault(title.replace(" ", "_"), [])
        # Torch's own attention takes no FP8.
        takers = [name for name in names if backward or name in ("fa3", "fa4")]
        for cell in grid(LENGTHS, dtype=dtype):
            if not run.has(8):
                run.skip(title, cell.label)
                continue
            make = peers.backward_calls if backward else peers.calls
            calls, left_out = make(cell, takers, peers.inputs(cell))
            ms = burst(calls, run.rounds, run.iterations)
            flops = cell.flops * (2.5 if backward else 1.0)
            rates = {name: round(flops / taken / 1e9, 1) for name, taken in ms.items()}
            rows.append({**cell.plain(), "tflops": rates, "left_out": left_out})
            report.line(cell.label, rates, left_out)
            del calls
        torch.cuda.empty_cache()
