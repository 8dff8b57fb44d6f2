"""One run: its deadline, its choices, and the results as they come in."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

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

    def skip(self, section: str, what: str) -> None:
        """Notes what there was no time for."""
        self.results.setdefault("out_of_time", []).append(f"{section}: {what}")
        say(f"{what}  out of time")
