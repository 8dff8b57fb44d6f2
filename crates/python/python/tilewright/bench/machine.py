"""Where a run ran: device, driver, clocks, versions, revision."""

from __future__ import annotations

import datetime
import platform
import subprocess
from typing import Any

import torch

import tilewright

from . import peers

#: What nvidia-smi is asked, by the name in the JSON.
ASKED = {
    "driver": "driver_version",
    "sm_clock_max_mhz": "clocks.max.sm",
    "sm_clock_mhz": "clocks.sm",
    "memory_clock_mhz": "clocks.mem",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
}


def smi() -> dict[str, str]:
    """Its answers for torch's device, as far as it gives any."""
    index = str(torch.cuda.current_device())
    query = ["nvidia-smi", "-i", index, f"--query-gpu={','.join(ASKED.values())}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}
    return dict(zip(ASKED, (word.strip() for word in answer.split(",")), strict=False))


def describe(revision: str) -> dict[str, Any]:
    """Everything that a figure needs beside it."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "device": properties.name,
        "sms": properties.multi_processor_count,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        **smi(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "tilewright": tilewright.__version__,
        "revision": revision,
        "peers": peers.versions(),
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
