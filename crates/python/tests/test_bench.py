"""The benchmark without a GPU: its command line, and that it says so."""

import itertools
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from tilewright.bench import predicted, report
from tilewright.bench.cells import QUICK, WHOLE, square
from tilewright.bench.names import ACCURATE, LINEAR
from tilewright.bench.run import Run
from tilewright.bench.turns import turns


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
    assert len(WHOLE.fp8) == 36 and len(WHOLE.fp8_road) == 18 and len(WHOLE.rounding) == 9
    assert set(QUICK.fp8) < set(WHOLE.fp8) and set(QUICK.fp8_road) < set(WHOLE.fp8_road)
    assert set(QUICK.rounding) < set(WHOLE.rounding)
    assert min(cell.seqlen for cell in WHOLE.fp8_road) == 4096 and max(WHOLE.fp8_keys) == 16384


def test_a_machine_without_a_gpu_is_told_as_not_run():
    """Never as measured."""
    done = bench("--quick")
    assert done.returncode == 2 and "not run" in done.stderr


@pytest.mark.parametrize("count", range(1, 9))
def test_every_call_has_every_other_before_it_equally_often(count):
    """And none itself, across rounds either; all of them in each round."""
    rounds = turns(count)
    assert all(sorted(order) == list(range(count)) for order in rounds)
    pairs = Counter(pair for order in rounds for pair in itertools.pairwise(order))
    assert len(pairs) == count * (count - 1) and len(set(pairs.values())) <= 1
    if count > 3:
        assert all(before[-1] != behind[0] for before, behind in itertools.pairwise(rounds * 2))


def test_cells_without_time_are_noted_and_left_out(monkeypatch):
    """Each by the time that is left when its turn comes."""
    clock = iter((0.0, 5.0, 9.5))
    monkeypatch.setattr("tilewright.bench.run.time", SimpleNamespace(monotonic=lambda: next(clock)))
    run = Run(["tilewright"], 1, 1, deadline=10.0)
    cells = [square(64, False, seqlen) for seqlen in (512, 1024, 2048)]
    assert list(run.cells("forward", cells, 2.0)) == cells[:2]
    assert run.results == {"out_of_time": [f"forward: {cells[2].label}"]}


def test_ratios_and_means_are_of_those_of_ours_that_are_asked_for():
    """Exact exponentials unless said; the others of ours are nobody's peer, and cells without them take no part."""
    cell = {"tilewright": 600.0, LINEAR: 750.0, ACCURATE: 550.0, "fa3": 500.0, "matmul": 900.0}
    rows = [
        {"head_dim": 128, "causal": False, "tflops": cell},
        {"head_dim": 256, "causal": False, "tflops": {"tilewright": 600.0, "fa3": 600.0}},
    ]
    assert report.ratio(cell) == pytest.approx(1.2) and report.ratio(cell, (LINEAR,)) == pytest.approx(1.5)
    assert report.best_peer(cell) == ("fa3", 500.0)
    assert report.means(rows)["all"] == pytest.approx(1.2**0.5)
    assert report.means(rows, ours=(LINEAR,)) == {"all": pytest.approx(1.5), "d128 full": pytest.approx(1.5)}
    assert report.means(rows, ours=("tilewright", LINEAR, ACCURATE))["all"] == pytest.approx(1.5**0.5)


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
