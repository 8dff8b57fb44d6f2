"""Tables for a terminal: every rate, the ratio to the best peer, geometric means."""

from __future__ import annotations

import math
from typing import Any

from .names import OURS, PEERS


def say(*words: object) -> None:
    """A line, at once."""
    print(*words, flush=True)


def heading(title: str) -> None:
    """A section's title."""
    say(f"\n== {title}")


def best_peer(rates: dict[str, float]) -> tuple[str, float] | None:
    """The peer with the highest rate."""
    there = [(rates[name], name) for name in PEERS if rates.get(name)]
    if not there:
        return None
    rate, name = max(there)
    return name, rate


def ratio(rates: dict[str, float]) -> float | None:
    """Ours over the best peer's."""
    best = best_peer(rates)
    return rates[OURS] / best[1] if best is not None and rates.get(OURS) else None


def line(
    label: str, rates: dict[str, float], left_out: dict[str, str] | None = None, digits: int = 1, more: str = ""
) -> None:
    """One cell: everybody's rate, the ratio, more if there is any, and who was left out."""
    words = [f"{name} {rate:7.{digits}f}" for name, rate in rates.items()]
    found, best = ratio(rates), best_peer(rates)
    if found is not None and best is not None:
        words.append(f"| {found:5.3f} of {best[0]}")
    if more:
        words.append(f"| {more}")
    say(f"{label}  {'  '.join(words)}")
    refusals(left_out or {})


#: Refusals that were printed.
_told: set[tuple[str, str]] = set()


def refusals(left_out: dict[str, str]) -> None:
    """Who was left out and why; the same words once, since a peer refuses many cells for one reason."""
    for name, why in left_out.items():
        if (name, why) not in _told:
            _told.add((name, why))
            say(f"    {name} left out, here and wherever it is missing: {why}")


def geometric(ratios: list[float]) -> float | None:
    """Geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def means(rows: list[dict[str, Any]], key: str = "tflops") -> dict[str, float]:
    """Geometric means of the ratios: over all cells, and for every head dimension and mask."""
    groups: dict[str, list[float]] = {"all": []}
    for row in rows:
        found = ratio(row[key])
        if found is not None:
            groups["all"].append(found)
            mask = "causal" if row["causal"] else "full"
            groups.setdefault(f"d{row['head_dim']} {mask}", []).append(found)
    return {name: mean for name, ratios in groups.items() if (mean := geometric(ratios)) is not None}


def show_means(title: str, found: dict[str, float]) -> None:
    """All in one line."""
    if found:
        say(f"{title}, ours over the best peer, geometric mean: " + "  ".join(f"{k} {v:.3f}" for k, v in found.items()))
