"""`python -m tilewright.bench`: the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback

EXAMPLES = """\
examples:
  python -m tilewright.bench --quick                     under three minutes
  python -m tilewright.bench --full --json FILE          under nine: the whole grid; `cargo xtask bench FILE` draws it
  python -m tilewright.bench --only forward --peers fa3  one section, beside one peer
"""

SECTIONS = (
    "ceilings",
    "rounding",
    "forward",
    "sustained",
    "grouped",
    "fp8",
    "small",
    "decode",
    "accuracy",
    "fp8-accuracy",
    "first-use",
)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.bench",
        description="Measure attention here beside every peer that imports, in one run on this machine's GPU.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a third of the cells (the default)")
    size.add_argument("--full", action="store_true", help="every cell")
    parser.add_argument("--json", metavar="FILE", help="write everything there too, after every section")
    parser.add_argument("--revision", default="unknown", metavar="REV", help="git revision, for the JSON")
    parser.add_argument("--only", metavar="A,B", help=f"sections, of {', '.join(SECTIONS)}")
    parser.add_argument("--peers", metavar="A,B", help="peers, of cudnn, fa2, fa3, fa4 (--quick: all but fa4)")
    parser.add_argument("--peers-only", action="store_true", help="measure what is offered by peers alone, and no more")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that take everybody in turn, at least")
    parser.add_argument("--iters", type=int, default=10, help="calls of everybody in a round")
    parser.add_argument("--seconds", type=float, help="stop measuring after so long (165, --full 520)")
    parser.add_argument("--seed", type=int, default=0, help="of the random data")
    asked = parser.parse_args(words)
    sections = asked.only.split(",") if asked.only else list(SECTIONS)
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        parser.error(f"--only {','.join(unknown)}: sections are {', '.join(SECTIONS)}")
    asked.sections = sections
    return asked


def main(words: list[str] | None = None) -> int:
    """Measures section after section. 1 if one failed, 2 where there is no GPU to measure on."""
    asked = arguments(words)
    start = time.monotonic()
    try:
        import torch
    except ImportError as why:
        print(f"not run: {why}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("not run: torch sees no GPU", file=sys.stderr)
        return 2

    from . import (
        accuracy,
        ceilings,
        cells,
        decode,
        first_use,
        forward,
        fp8,
        fp8_accuracy,
        machine,
        other,
        peers,
        report,
        rounding,
    )
    from . import small as small_launches
    from .names import PEERS
    from .run import Run

    torch.manual_seed(asked.seed)
    plan = cells.WHOLE if asked.full else cells.QUICK
    installed = peers.versions()
    wanted = asked.peers.split(",") if asked.peers else [p for p in PEERS if asked.full or p != "fa4"]
    there = [name for name in wanted if name in installed or name == "cudnn"]
    names = [*([] if asked.peers_only else [peers.OURS]), *there]
    run = Run(names, asked.rounds, asked.iters, start + (asked.seconds or plan.seconds))
    run.results["meta"] = machine.describe(asked.revision)
    run.results["meta"]["size"] = "full" if asked.full else "quick"
    report.say(json.dumps(run.results["meta"], indent=1))
    for name in wanted:
        if name not in there:
            report.say(f"{name} left out: it is not installed")

    steps = {
        "ceilings": lambda: ceilings.measure(run),
        "rounding": lambda: rounding.measure(run, plan.rounding),
        "forward": lambda: forward.bursts(run, plan.forward, "forward", "forward bf16"),
        "sustained": lambda: forward.alone(run, plan.sustained, None if asked.full else 1),
        "grouped": lambda: forward.bursts(run, plan.grouped, "grouped", "grouped heads 32/8"),
        "fp8": lambda: (fp8.alone(run, plan.fp8), fp8.road(run, plan.fp8_road)),
        "small": lambda: small_launches.measure(run, plan.small),
        "decode": lambda: decode.measure(run, plan.decode),
        "accuracy": lambda: accuracy.measure(run, plan.accuracy_dims),
        "fp8-accuracy": lambda: fp8_accuracy.measure(run, plan.fp8_keys),
        "first-use": lambda: first_use.measure(run, names if asked.full else names[:1]),
    }
    if asked.peers_only:
        steps = {"other": lambda: other.measure(run)}
    else:
        steps = {name: step for name, step in steps.items() if name in asked.sections}
        steps["other"] = lambda: other.not_offered(run)
    for name, step in steps.items():
        began = time.monotonic()
        try:
            step()
        except Exception as why:
            # The other sections can still be had; the exit code tells.
            run.results.setdefault("failed", {})[name] = peers.reason(why)
            traceback.print_exc()
        run.results["meta"].setdefault("section_seconds", {})[name] = round(time.monotonic() - began, 1)
        save(asked.json, run.results)
    run.results["meta"]["after"] = machine.smi()
    run.results["meta"]["total_seconds"] = round(time.monotonic() - start, 1)
    save(asked.json, run.results)
    report.heading(f"done in {time.monotonic() - start:.0f} s")
    for title in ("forward", "sustained", "grouped", "fp8_forward", "fp8_forward_linear", "fp8_forward_fastest"):
        report.show_means(title.replace("_", " "), run.results.get(f"{title}_means", {}))
    for name, why in run.results.get("failed", {}).items():
        report.say(f"section {name} failed: {why}")
    return 1 if "failed" in run.results else 0


def save(path: str | None, results: dict) -> None:
    """Writes what there is so far."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
