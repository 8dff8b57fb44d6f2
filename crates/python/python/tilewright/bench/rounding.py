"""Rounding from 16 bits to 8 alone, beside a copy of as many bytes."""

from __future__ import annotations

from functools import partial

import torch

import tilewright

from . import peers, report
from .ceilings import copy
from .cells import Cell
from .run import Run
from .timing import burst, graphed

#: Roundings in one graph, and copies.
REPEATS = 4


def moved(cell: Cell) -> float:
    """Bytes that rounding reads and writes: 16 bits of each element of Q, K and V, and 8."""
    rows = cell.seqlen * cell.heads + 2 * cell.keys * cell.kv_heads
    return 3.0 * cell.batch * rows * cell.head_dim


def measure(run: Run, cells: list[Cell]) -> None:
    """The two in turn, before anything has brought the chip to its power limit: there rounding loses a few percent."""
    report.heading("rounding to 8 bits, and a copy of as many bytes: us, GB/s read and written")
    rows = run.results.setdefault("rounding", [])
    for cell in run.cells("rounding", cells, 3):
        tensors = peers.inputs(cell)
        # By replay, since a call of it may cost the host more than the device. Half of what a copy moves is read.
        calls = {"quantize": partial(tilewright.quantize, *tensors), "copy": copy(int(moved(cell)) // 2)}
        calls = {name: graphed(call, REPEATS) for name, call in calls.items()}
        us = {name: ms / REPEATS * 1e3 for name, ms in burst(calls, run.rounds, run.iterations).items()}
        gbps = {name: moved(cell) / taken / 1e3 for name, taken in us.items()}
        rows.append(
            {
                **cell.plain(),
                "device_us": {name: round(taken, 2) for name, taken in us.items()},
                "gbps": {name: round(rate, 1) for name, rate in gbps.items()},
            }
        )
        report.say(
            f"{cell.label}  rounding {us['quantize']:6.2f} = {gbps['quantize']:.0f} GB/s  "
            f"copy {us['copy']:6.2f} = {gbps['copy']:.0f} GB/s  {gbps['quantize'] / gbps['copy']:.3f} of the copy"
        )
        del calls, tensors
    torch.cuda.empty_cache()
