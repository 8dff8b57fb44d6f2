"""The matrix products and the copy of the day: what the chip gives right now, to hold every other figure against."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .peers import tried
from .report import heading, refusals, say
from .run import Run
from .timing import burst, sustained

#: Rows, columns and depth of the product.
SIDE = 8192
#: Bytes of the copy.
BYTES = 2 << 30


def product() -> tuple[Callable[[], object], float]:
    """A bfloat16 product on random data, and its floating-point operations."""
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return (lambda: a @ b), 2.0 * SIDE**3


def product_fp8() -> tuple[Callable[[], object], float]:
    """The same in e4m3 with one scale each, to bfloat16."""
    a, b = (torch.randn(SIDE, SIDE, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    columns = b.t()

    def call() -> object:
        return torch._scaled_mm(a, columns, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return call, 2.0 * SIDE**3


def copy(size: int) -> Callable[[], object]:
    """A copy of so many random bytes."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def measure(run: Run) -> None:
    """Products and copy in a burst, the bfloat16 product sustained too."""
    heading("matrix product and copy of the day")
    call, flops = product()
    eight, left_out = tried({"matmul_fp8": lambda: product_fp8()[0]})
    refusals(left_out)
    ms = burst({"matmul": call, **eight, "copy": copy(BYTES)}, run.rounds, run.iterations)
    held = sustained(call)
    tflops = flops / held["ms"] / 1e9
    found = {
        "matmul": {"tflops": round(flops / ms["matmul"] / 1e9, 1)},
        "matmul_sustained": {"tflops": round(tflops, 1), **held},
        "copy": {"gbps": round(2 * BYTES / ms["copy"] / 1e6, 1)},
    }
    if "matmul_fp8" in ms:
        found["matmul_fp8"] = {"tflops": round(flops / ms["matmul_fp8"] / 1e9, 1)}
    run.results["ceilings"] = found
    clock = f" at {held['mhz']:.0f} MHz, {held['watts']:.0f} W" if "mhz" in held else ""
    say(f"bf16 {SIDE}^3: {found['matmul']['tflops']} TFLOP/s in a burst, {tflops:.1f} sustained{clock}")
    if "matmul_fp8" in found:
        say(f"e4m3 {SIDE}^3: {found['matmul_fp8']['tflops']} TFLOP/s in a burst")
    say(f"copy of {BYTES >> 30} GiB: {found['copy']['gbps']} GB/s, read and written")
