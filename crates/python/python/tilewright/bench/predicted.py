"""The cost model beside the measurement: what was predicted of a cell, and how far off it was. Knows no framework."""

from __future__ import annotations

import statistics
from typing import Any

from .names import OURS


def fields(prediction: Any, flops: float) -> dict[str, Any]:
    """A prediction as a row of the results has it: TFLOP/s by the benchmark's count of operations, and the schedule."""
    rate = round(flops / prediction.seconds / 1e12, 1)
    return {"predicted": rate, "schedule": prediction.schedule, "calibrated": prediction.calibrated}


def words(row: dict[str, Any]) -> str:
    """The same for a line of the terminal; nothing where nothing was predicted."""
    if row.get("predicted") is None:
        return ""
    off = error(row)
    return f"predicted {row['predicted']:.1f}" + ("" if off is None else f" ({100 * off:+.0f} %)") + f" {row['schedule']}"


def error(row: dict[str, Any]) -> float | None:
    """Predicted over measured, less one."""
    predicted, measured = row.get("predicted"), row["tflops"].get(OURS)
    return predicted / measured - 1 if predicted and measured else None


def errors(rows: list[dict[str, Any]]) -> dict[str, float] | None:
    """Median and largest magnitude of the errors of some rows; None of none."""
    found = [abs(off) for row in rows if (off := error(row)) is not None]
    return {"median": round(statistics.median(found), 4), "worst": round(max(found), 4)} if found else None
