"""The benchmark without a GPU: its command line, and that it says so."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tilewright.bench import predicted, report
from tilewright.bench.cells import QUICK, WHOLE, square


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


def test_eight_bits_have_sections_of_their_own():
    """Known by name, and in either size: the whole grid, and a part of it."""
    done = bench("--only", "fp8,fp8-accuracy")
    assert done.returncode == 2 and "not run" in done.stderr
    assert len(WHOLE.fp8) == 36 and len(WHOLE.fp8_road) == 18
    assert set(QUICK.fp8) < set(WHOLE.fp8) and set(QUICK.fp8_road) < set(WHOLE.fp8_road)
    assert min(cell.seqlen for cell in WHOLE.fp8_road) == 4096 and max(WHOLE.fp8_keys) == 16384


def test_a_machine_without_a_gpu_is_told_as_not_run():
    """Never as measured."""
    done = bench("--quick")
    assert done.returncode == 2 and "not run" in done.stderr


def row(predicted_rate, measured):
    """A row of the forward section, as far as predictions go."""
    return {"predicted": predicted_rate, "schedule": "fwd_bf16_d128", "tflops": {"tilewright": measured, "fa3": 500.0}}


def test_a_prediction_is_counted_as_the_measurement_is():
    """By the paper's count of operations, half of them where causal, whatever the model counts."""
    cell = square(128, True, 512)
    prediction = SimpleNamespace(seconds=cell.flops / 400e12, schedule="fwd_bf16_d128_causal", flops=1.0, calibrated=True)
    found = predicted.fields(prediction, cell.flops)
    assert found == {"predicted": 400.0, "schedule": "fwd_bf16_d128_causal", "calibrated": True}


def test_prediction_errors_are_signed_in_a_line_and_magnitudes_in_the_summary():
    """Rows without a prediction, as older runs have them, take no part."""
    rows = [row(660.0, 600.0), row(594.0, 600.0), row(450.0, 600.0), {"tflops": {"tilewright": 600.0}}, row(600.0, None)]
    assert predicted.words(rows[0]) == "predicted 660.0 (+10 %) fwd_bf16_d128"
    assert predicted.words(rows[2]).startswith("predicted 450.0 (-25 %)")
    assert predicted.words(rows[3]) == "" and predicted.error(rows[4]) is None
    assert predicted.errors(rows) == {"median": pytest.approx(0.1), "worst": pytest.approx(0.25)}
    assert predicted.errors(rows[3:]) is None


def test_a_line_shows_the_prediction_behind_the_ratio(capsys):
    """As the forward section prints it."""
    rates = row(660.0, 600.0)["tflops"]
    report.line("d128 full", rates, more=predicted.words(row(660.0, 600.0)))
    shown = capsys.readouterr().out
    assert shown.index("1.200 of fa3") < shown.index("predicted 660.0 (+10 %) fwd_bf16_d128")
