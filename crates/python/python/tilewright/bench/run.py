"""One run: its deadline, its choices, and the results as they come in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .cells import Cell
from .report import say


@dataclass
class Run:
    """What every section gets."""

    names: list[str]
    rounds: int
    iterations: int
    deadline: float
    results: dict[str, Any] = field(default_factory=dict)

    def has(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return time.monotonic() + seconds < self.deadline

    def cells(self, section: str, cells: Iterable[Cell], seconds: float) -> Iterator[Cell]:
        """The cells that so much time is left for, each asked for when its turn comes; notes the others."""
        for cell in cells:
            if self.has(seconds):
                yield cell
            else:
                self.skip(section, cell.label)

    def skip(self, section: str, what: str) -> None:
        """Notes what there was no time for."""
        self.results.setdefault("out_of_time", []).append(f"{section}: {what}")
        say(f"{what}  out of time")
