"""Schedules from text: read, lowered, proven and printed without a GPU."""

import pytest

import tilewright
from tilewright import ScheduleError

GOOD = """
mine {
    pass: forward,
    element: bf16,
    head_dim: 128,
    tile: 128 x 128,
    stages: { q: 1, kv: 2 },
    roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
    overlap: [within_warpgroup],
}
"""

FAMILY = GOOD.replace("mine {", "mine for head_dim in [64, 128] {").replace("    head_dim: 128,\n", "")


def test_a_schedule_becomes_ptx():
    """With its name as the kernel's."""
    mine = tilewright.compile(GOOD)
    assert mine.name == "mine" and "mine" in repr(mine)
    assert ".entry mine" in mine.ptx and ".target sm_90a" in mine.ptx
    assert "tensor" in mine.explain()


def test_the_text_reads_back_to_the_same_kernel():
    """Defaults and all."""
    mine = tilewright.compile(GOOD)
    assert tilewright.compile(mine.text).ptx == mine.ptx


def test_a_template_file_is_taken_as_it_is():
    """The macro around it is looked through."""
    file = f"//! Mine.\nuse schedule_macros::schedule;\nschedule! {{ {FAMILY} }}"
    assert tilewright.compile(file, "mine_d64").name == "mine_d64"


def test_of_several_one_is_picked_by_name():
    """And they are listed."""
    for name in (None, "yours"):
        with pytest.raises(ScheduleError, match="mine_d64, mine_d128"):
            tilewright.compile(FAMILY, name)
    assert tilewright.compile(FAMILY, "mine_d128").name == "mine_d128"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tile: 128 x 128", "tile: 128 x 800", "shared memory"),
        ("pass: forward", "pass: sideways", "3:11"),
        ("element: bf16,", "elemen: bf16,", "element"),
        ("registers(240)", "registers(241)", "241"),
        ("mine {", "mine", "."),
    ],
)
def test_what_does_not_read_says_where_and_what(old, new, message):
    """Line, column and arithmetic."""
    with pytest.raises(ScheduleError, match=message):
        tilewright.compile(GOOD.replace(old, new))


def test_what_reads_but_is_not_lowered_is_refused_by_option():
    """Rows of 16 bits are summed by threads."""
    with pytest.raises(ScheduleError, match="row_sum: tensor_core.* is not lowered.*row_sum: threads"):
        tilewright.compile(GOOD.replace("overlap:", "row_sum: tensor_core, overlap:"))


def test_a_schedule_of_eight_bits_becomes_ptx_too():
    """With the scales that it reads among its parameters."""
    ptx = tilewright.compile(GOOD.replace("bf16", "e4m3")).ptx
    assert "e4m3.e4m3" in ptx and "q_scale" in ptx


def test_a_schedule_of_eight_bits_takes_what_quantize_wrote(quantized, qkv):
    """As far as the driver, and nothing else."""
    mine = tilewright.compile(GOOD.replace("bf16", "e4m3"))
    with pytest.raises(tilewright.InvalidArgument, match="what quantize gives, not a tuple"):
        mine.attention_quantized(qkv)
    with pytest.raises(tilewright.DeviceError, match="driver"):
        mine.attention_quantized(quantized, causal=False, out_dtype="float16")


def test_a_schedule_runs_only_on_a_gpu(qkv):
    """And says so."""
    with pytest.raises(tilewright.DeviceError, match="driver"):
        tilewright.compile(GOOD).attention(*qkv)
