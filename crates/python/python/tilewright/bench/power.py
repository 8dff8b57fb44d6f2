"""The SM clock and the power of the GPU while something runs, read beside it."""

from __future__ import annotations

import statistics
import subprocess
import threading
from typing import Any

import torch

#: Seconds between two readings.
EVERY = 0.05


def _handle() -> Any:
    """NVML's handle of torch's current device; None where NVML does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        uuid = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        try:
            return pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except (pynvml.NVMLError, TypeError):
            return pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    except Exception:
        return None


class Sampler:
    """Reads while it is entered. `medians()` gives `mhz` and `watts`, or nothing where they cannot be read."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._rows: list[tuple[float, float]] = []
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._smi: subprocess.Popen[str] | None = None

    def __enter__(self) -> Sampler:
        """Starts reading: NVML on a thread, or `nvidia-smi` beside it."""
        handle = _handle()
        if handle is not None:
            self._thread = threading.Thread(target=self._read, args=(handle,), daemon=True)
            self._thread.start()
            return self
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "100"]
        try:
            self._smi = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self._smi = None
        return self

    def _read(self, handle: Any) -> None:
        import pynvml

        while not self._done.wait(EVERY):
            try:
                mhz = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
                watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
            except pynvml.NVMLError:
                continue
            self._rows.append((float(mhz), watts))

    def __exit__(self, *_: object) -> None:
        """Stops reading."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if self._smi is not None:
            self._smi.terminate()
            for line in self._smi.communicate()[0].splitlines():
                try:
                    mhz, watts = map(float, line.split(",")[:2])
                except ValueError:
                    continue
                self._rows.append((mhz, watts))

    def medians(self) -> dict[str, float]:
        """Of what was read; the power reading lags, so that its first fifth is left out."""
        rows = self._rows[len(self._rows) // 5 :]
        if not rows:
            return {}
        mhz, watts = (statistics.median(column) for column in zip(*rows, strict=True))
        return {"mhz": mhz, "watts": round(watts, 1)}
