"""From `import` to the first result, each in a fresh process: with the driver's compute cache cold, and warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from . import peers, report
from .run import Run

#: What a process does: torch and the context first, which everybody pays, then the peer's import and its first result.
SCRIPT = """
import json, sys, time
start = time.perf_counter()
import torch
q, k, v = (torch.randn(1, 1024, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
torch.cuda.synchronize()
ready = time.perf_counter()
name = sys.argv[1]
if name == "tilewright":
    import tilewright
    call = lambda: tilewright.attention(q, k, v, causal=True)
elif name == "fa3":
    import fa3_fwd_interface
    call = lambda: fa3_fwd_interface.flash_attn_func(q, k, v, causal=True)
elif name == "fa4":
    from flash_attn.cute import flash_attn_func
    call = lambda: flash_attn_func(q, k, v, causal=True)
else:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    backend = SDPBackend.CUDNN_ATTENTION if name == "cudnn" else SDPBackend.FLASH_ATTENTION
    def call():
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
imported = time.perf_counter()
call()
torch.cuda.synchronize()
first = time.perf_counter()
call()
torch.cuda.synchronize()
second = time.perf_counter()
print(json.dumps({"torch_s": ready - start, "import_s": imported - ready, "first_s": first - imported,
                  "second_s": second - first}))
"""


def _process(name: str, caches: str) -> dict[str, float]:
    """One fresh process with its caches in that folder."""
    environment = {
        **os.environ,
        "CUDA_CACHE_PATH": os.path.join(caches, "cuda"),
        "CUDA_CACHE_MAXSIZE": str(1 << 30),
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": os.path.join(caches, "cute"),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], env=environment, capture_output=True, text=True, timeout=150
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit code {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(run: Run, names: list[str]) -> None:
    """Everybody cold, then warm, in one folder of caches each."""
    report.heading("first use in a fresh process, seconds: import + first result, after torch and its context are there")
    found: dict[str, Any] = run.results.setdefault("first_use", {})
    for name in names:
        with tempfile.TemporaryDirectory() as caches:
            for state in ("cold", "warm"):
                if not run.has(45 if name == "fa4" else 20):
                    run.skip("first use", f"{name} {state}")
                    continue
                try:
                    took = _process(name, caches)
                except (RuntimeError, subprocess.SubprocessError, ValueError) as why:
                    found.setdefault(name, {})[state] = {"left_out": peers.reason(why)}
                    report.say(f"{name:<10} {state}  left out: {peers.reason(why)}")
                    continue
                found.setdefault(name, {})[state] = took
                report.say(
                    f"{name:<10} {state}  import {took['import_s']:6.2f}  first {took['first_s']:6.2f}  "
                    f"second {took['second_s']:8.5f}  (torch and context {took['torch_s']:.1f})"
                )
    sizes = run.results["installed_mb"] = peers.megabytes()
    report.say("installed, MB: " + "  ".join(f"{name} {mb}" for name, mb in sizes.items()))
