"""Small launches: what a call costs the host, and what it costs the device once the host is out of the way."""

from __future__ import annotations

from . import peers, report
from .cells import Cell
from .run import Run
from .timing import burst, graphed, host_microseconds

#: Calls in one graph.
COPIES = 20


def measure(run: Run, cells: list[Cell]) -> None:
    """Host microseconds of a call, and device microseconds of one of twenty in a CUDA graph."""
    report.heading("small launches: microseconds of the host a call, and of the device a call in a CUDA graph")
    rows = run.results.setdefault("small", [])
    for cell in run.cells("small", cells, 8):
        calls, left_out = peers.calls(cell, run.names, peers.inputs(cell))
        host = {name: round(host_microseconds(call), 2) for name, call in calls.items()}
        graphs = {}
        for name, call in calls.items():
            try:
                graphs[name] = graphed(call, COPIES)
            except Exception as why:
                left_out[name] = f"in a graph: {peers.reason(why)}"
        device = {name: round(ms * 1e3 / COPIES, 2) for name, ms in burst(graphs, run.rounds, run.iterations).items()}
        rows.append({**cell.plain(), "host_us": host, "device_us": device, "left_out": left_out})
        report.say(f"{cell.label}  host   " + "  ".join(f"{name} {us:6.1f}" for name, us in host.items()))
        report.say(f"{' ' * len(cell.label)}  device " + "  ".join(f"{name} {us:6.1f}" for name, us in device.items()))
        report.refusals(left_out)
