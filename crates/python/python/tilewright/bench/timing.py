"""Time on the device and on the host: bursts in turn, one kernel alone for long, launches as the host sees them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from .power import Sampler
from .turns import turns

Call = Callable[[], object]


def milliseconds(call: Call, iterations: int) -> float:
    """Median of so many calls, each between its own pair of events."""
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(iterations)]
    for start, stop in pairs:
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in pairs)


def burst(calls: dict[str, Call], rounds: int = 5, iterations: int = 10) -> dict[str, float]:
    """Median milliseconds of each call over at least so many rounds that take them in turn, so that a drifting clock
    hits all alike, and each behind every other equally often.
    """
    for call in calls.values():
        milliseconds(call, 3)
    names, order = list(calls), turns(len(calls))
    taken: dict[str, list[float]] = {name: [] for name in names}
    for one in order * math.ceil(rounds / len(order)):
        for name in (names[call] for call in one):
            taken[name].append(milliseconds(calls[name], iterations))
    return {name: statistics.median(times) for name, times in taken.items()}


def sustained(call: Call, seconds: float = 1.5, warm: float = 0.4) -> dict[str, float]:
    """One call alone, again and again: milliseconds of one, SM clock in MHz and watts while it ran.

    The first `warm` seconds heat the chip and are not counted; `seconds` follow.
    """
    few = min(1000, max(1, int(25 / max(milliseconds(call, 3), 1e-3))))

    def spin(duration: float) -> int:
        done, end = 0, time.monotonic() + duration
        while time.monotonic() < end:
            for _ in range(few):
                call()
            done += few
            torch.cuda.synchronize()
        return done

    spin(warm)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with Sampler() as sampler:
        start.record()
        done = spin(seconds)
        stop.record()
        torch.cuda.synchronize()
    return {"ms": start.elapsed_time(stop) / done, **sampler.medians()}


def graphed(call: Call, copies: int = 1) -> Call:
    """The same work as one CUDA graph replay, so that the host's launch cost stays out of it. Holds what the call holds: a
    graph reads and writes its tensors by address.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(copies):
            call()

    return partial(_replay, graph, call)


def _replay(graph: torch.cuda.CUDAGraph, held: Call) -> None:
    graph.replay()


def host_microseconds(call: Call, calls: int = 300, rounds: int = 7) -> float:
    """What a call costs the host: the best of some rounds over its mean, with the device's queue never full."""
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
        torch.cuda.synchronize()
    return best * 1e6
