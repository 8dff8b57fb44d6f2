"""`compile`: a schedule from its text, tried without building any Rust."""

from __future__ import annotations

from typing import Any

from . import _native
from ._call import door
from .errors import InvalidArgument, ScheduleError
from .fp8 import Quantized, by_schedule


class Compiled:
    """A schedule of the caller's own: read, lowered and proven. Computes what its text says and refuses everything else."""

    def __init__(self, schedule: _native.Schedule) -> None:
        """Of a schedule that was read; `compile` makes these."""
        self._schedule = schedule

    @property
    def name(self) -> str:
        """The schedule's name."""
        return self._schedule.name

    @property
    def text(self) -> str:
        """The schedule's text, with every default written out."""
        return self._schedule.text

    @property
    def ptx(self) -> str:
        """The whole PTX of the kernel. Needs no GPU."""
        return self._schedule.ptx

    def attention(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool = False,
        scale: float | None = None,
        out: Any = None,
        return_lse: bool = False,
    ) -> Any:
        """As `tilewright.attention`, by this schedule. Raises `ScheduleError` if it does not compute the problem."""
        o, lse = door(q).attention(q, k, v, causal, scale, out, self._schedule)
        return (o, lse) if return_lse else o

    def attention_quantized(
        self,
        quantized: Quantized,
        *,
        causal: bool = False,
        scale: float | None = None,
        out_dtype: Any = None,
        return_lse: bool = False,
    ) -> Any:
        """As `tilewright.attention_quantized` of what `quantize` wrote, by this schedule, which says how sums are kept and
        P is made. Where scales of K are by block, its key tile must be the one that `quantize` made them for. Raises
        `ScheduleError` if it does not compute the problem.
        """
        if not isinstance(quantized, Quantized):
            raise InvalidArgument(f"attention_quantized: expected what quantize gives, not a {type(quantized).__name__}")
        o, lse = by_schedule(quantized, causal, scale, out_dtype, self._schedule)
        return (o, lse) if return_lse else o

    def explain(
        self, q: Any = None, k: Any = None, v: Any = None, *, causal: bool = False, scale: float | None = None
    ) -> str:
        """What the schedule costs; with tensors also how it computes them, as `tilewright.explain`."""
        if q is None:
            return f"{self.text}\na step: {self._schedule.cost()}\n"
        return _native.explain((q, k, v, door(q).outputs(q, v)[0]), causal, scale, self._schedule)

    def __repr__(self) -> str:
        """Its name."""
        return f"<tilewright.Compiled {self.name}>"


def compile(schedule_text: str, name: str | None = None) -> Compiled:
    """Reads a schedule, lowers it and proves what can be proven, without a GPU and without building Rust.

    `schedule_text` is what stands between the braces of `schedule! { ... }`, or a whole file of `templates/`. Of several
    schedules, such as a family's, `name` picks one.

    Raises `ScheduleError` with line and column of what does not read, or with what cannot be lowered or proven.
    """
    found = {schedule.name: schedule for schedule in _native.schedules(schedule_text, name)}
    if name is None and len(found) == 1:
        (name,) = found
    if name not in found:
        names = ", ".join(found) or "none"
        asked = f"there is no schedule {name} in this text" if name else "this text has not exactly one schedule"
        raise ScheduleError(f"{asked}: pick by name among {names}")
    return Compiled(found[name])
