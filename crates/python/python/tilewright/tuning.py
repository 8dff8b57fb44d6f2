"""`use_tuning`: going by what was measured on a machine of your own."""

from __future__ import annotations

from pathlib import Path

from . import _fp8, _native
from .errors import InvalidArgument

#: What `python -m tilewright.tune` writes into its folder.
TUNED, SCHEDULES = "tuned.toml", "tuned_schedules.rs"


def use_tuning(path: str | Path | None) -> None:
    """Makes all later calls of the process go by what `python -m tilewright.tune` found, before what is shipped.

    Args:
        path: the folder that it wrote, whose schedules, if there are new ones, are taken with it; or a `tuned.toml` alone.
            None: back to what is shipped.

    Raises `InvalidArgument` for a file that cannot be read, an entry that means nothing or whose schedule is not there, and
    `ScheduleError` with line and column of a schedule that does not read; all stays as it was then. Needs no GPU. Calls
    that run at the same time may go by either; what CUDA graphs recorded stays.
    """
    tuning = schedules = None
    if path is not None:
        path = Path(path)
        beside = path / SCHEDULES
        tuning = _read(path / TUNED if path.is_dir() else path)
        schedules = _read(beside) if beside.is_file() else None
    _native.use_tuning(tuning, schedules)
    _fp8.forget()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise InvalidArgument(f"cannot read {path}: {why}") from why
