"""The benchmark without a GPU: its command line, and that it says so."""

import subprocess
import sys


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """Its answer to a command line."""
    return subprocess.run([sys.executable, "-m", "tilewright.bench", *words], capture_output=True, text=True)


def test_help_shows_examples():
    """Of what a person would type."""
    done = bench("--help")
    assert done.returncode == 0 and "--quick" in done.stdout and "examples:" in done.stdout


def test_an_unknown_section_is_refused_with_those_there_are():
    """Before anything is imported."""
    done = bench("--only", "forwards")
    assert done.returncode == 2 and "forward, sustained" in done.stderr


def test_a_machine_without_a_gpu_is_told_as_not_run():
    """Never as measured."""
    done = bench("--quick")
    assert done.returncode == 2 and "not run" in done.stderr
