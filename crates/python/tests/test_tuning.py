"""What was measured on a machine of one's own, without a GPU: the key tile of codes shows what is chosen."""

import subprocess
import sys

import pytest

import tilewright
from tilewright import InvalidArgument, ScheduleError, _fp8

ENTRY = """[[prefer]]
schedule = "mine"
element = "e4m3"
head_dim = 128
variant = "full"
"""

MINE = """schedule! {
    mine {
        pass: forward, element: e4m3, head_dim: 128, tile: 128 x 64, stages: { q: 1, kv: 2 },
        roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        overlap: [within_warpgroup], rescale: above(3.8), row_sum: tensor_core,
    }
}
"""


@pytest.fixture(autouse=True)
def shipped():
    """As it was, afterwards."""
    yield
    tilewright.use_tuning(None)


@pytest.fixture
def folder(tmp_path):
    """As the tuner leaves it."""
    (tmp_path / "tuned.toml").write_text(ENTRY)
    (tmp_path / "tuned_schedules.rs").write_text(MINE)
    return tmp_path


def key_tile() -> int:
    """Of the schedule that codes of head dimension 128 are for."""
    return _fp8.key_block(128, 128, 1000, "fast")


def test_a_folder_is_gone_by_until_it_is_taken_back(folder):
    """Schedules and entries."""
    before = key_tile()
    tilewright.use_tuning(folder)
    assert key_tile() == 64 != before
    tilewright.use_tuning(str(folder))
    assert key_tile() == 64
    tilewright.use_tuning(None)
    assert key_tile() == before


def test_a_file_alone_names_what_is_shipped(folder):
    """Another schedule is not there."""
    alone = folder / "mine.toml"
    alone.write_text(ENTRY.replace("mine", "fwd_e4m3_d128"))
    tilewright.use_tuning(folder / "mine.toml")
    (folder / "tuned_schedules.rs").unlink()
    with pytest.raises(InvalidArgument, match="entry 1 of the tuning file"):
        tilewright.use_tuning(folder)


def test_what_is_wrong_is_told_and_changes_nothing(folder):
    """Of the file, of an entry, of a schedule."""
    tilewright.use_tuning(folder)
    with pytest.raises(InvalidArgument, match="cannot read .*nowhere"):
        tilewright.use_tuning(folder / "nowhere")
    (folder / "tuned.toml").write_text(ENTRY.replace("128", '"wide"'))
    with pytest.raises(InvalidArgument, match="head_dim"):
        tilewright.use_tuning(folder)
    (folder / "tuned.toml").write_text(ENTRY)
    (folder / "tuned_schedules.rs").write_text(MINE.replace("tile: 128 x 64", "tile: 128 x 63"))
    with pytest.raises(ScheduleError, match="63"):
        tilewright.use_tuning(folder)
    (folder / "tuned_schedules.rs").write_text(MINE.replace("mine", "fwd_e4m3_d128"))
    with pytest.raises(InvalidArgument, match="fwd_e4m3_d128 differs from the shipped one"):
        tilewright.use_tuning(folder)
    assert key_tile() == 64


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--help"], 0, "tuned.toml"),
        (["--masks", "sideways"], 1, "full, causal"),
        (["--seconds", "1", "--head-dims", "64", "--gpu", "99"], 2, "not run"),
    ],
)
def test_the_tuner_is_a_program_of_the_package(words, code, told):
    """Its exit codes are those of the program that Rust builds."""
    done = subprocess.run([sys.executable, "-m", "tilewright.tune", *words], capture_output=True, text=True)
    assert done.returncode == code and told in done.stdout + done.stderr, done
