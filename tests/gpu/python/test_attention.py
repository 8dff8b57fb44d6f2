"""`attention` and its relatives on torch tensors, against float64."""

import pytest
import torch
from conftest import check, exact, relative

import tilewright


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "dv"), [(64, 64), (96, 96), (128, 128), (192, 192), (256, 256), (192, 128)])
def test_every_head_dimension_type_and_mask(make, d, dv, causal, dtype):
    """Shapes that are no multiple of a tile, grouped heads."""
    q, k, v = make(d=d, dv=dv, dtype=dtype)
    o, lse = tilewright.attention(q, k, v, causal=causal, return_lse=True)
    assert o.shape == (2, 300, 4, dv) and o.dtype == dtype and lse.dtype == torch.float32
    check(o, lse, q, k, v, causal)


@pytest.mark.parametrize(("sq", "sk"), [(1, 777), (130, 777), (777, 130), (1, 1), (128, 128)])
def test_causal_is_aligned_at_the_bottom_right(make, sq, sk):
    """Rows without a key give 0 and -inf."""
    q, k, v = make(sq=sq, sk=sk)
    o, lse = tilewright.attention(q, k, v, causal=True, return_lse=True)
    check(o, lse, q, k, v, True)


def test_a_scale_of_the_callers_own(make):
    """Twice, with another between: each is its own plan."""
    q, k, v = make()
    for scale in (0.3, 0.05, 0.3):
        check(tilewright.attention(q, k, v, scale=scale), None, q, k, v, scale=scale)


def test_layouts_are_strides_and_no_copies(make):
    """Heads before tokens, a slice of a packed tensor, and an output in between."""
    q, k, v = make(hq=4, hk=4)
    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    check(tilewright.attention(*heads_first, causal=True), None, q, k, v, True)
    packed = torch.stack([q, k, v], 2)
    parts = packed.unbind(2)
    wide = torch.full((2, 300, 8, 128), float("nan"), device="cuda", dtype=q.dtype)
    out = wide[:, :, ::2]
    assert tilewright.attention(*parts, out=out) is out
    check(out, None, q, k, v)
    assert wide[:, :, 1::2].isnan().all()


def test_streams_are_the_callers(make):
    """Work goes to the current one, after what is there."""
    q, k, v = make(sq=2048, sk=2048)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        big = torch.randn(8192, 8192, device="cuda")
        for _ in range(5):
            big = big @ big / 90
        late = q + 0 * big[0, 0].to(q.dtype).nan_to_num(0)
        o = tilewright.attention(late, k, v, causal=True)
    torch.cuda.current_stream().wait_stream(side)
    check(o, None, late, k, v, True)


def test_empty_tensors_launch_nothing(make):
    """No row, and rows without keys."""
    assert tilewright.attention(*make(b=0)).shape == (0, 300, 4, 128)
    o, lse = tilewright.attention(*make(sk=0), return_lse=True)
    assert (o == 0).all() and (lse == -float("inf")).all()


def test_what_is_on_the_cpu_or_misaligned_is_refused_by_name(make):
    """Before anything runs."""
    q, k, v = make()
    with pytest.raises(tilewright.InvalidArgument, match="tensor k is on cpu"):
        tilewright.attention(q, k.cpu(), v)
    odd = torch.randn(2 * 300 * 4 * 128 + 1, device="cuda", dtype=q.dtype)[1:].view(2, 300, 4, 128)
    with pytest.raises(tilewright.InvalidArgument, match="tensor q.*16 bytes"):
        tilewright.attention(odd, k, v)
    with pytest.raises(tilewright.NotSupported, match="head dimension 80.*128"):
        tilewright.attention(*make(d=80))


def test_flash_attn_func_is_a_drop_in(make):
    """With the triple that FlashAttention-2 gives, and rows that are copied where they have gaps."""
    q, k, v = make()
    out, lse, nothing = tilewright.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert nothing is None
    check(out, lse, q, k, v, True)
    gaps = q.transpose(-1, -2).contiguous().transpose(-1, -2)
    check(tilewright.flash_attn_func(gaps, k, v, causal=True), None, q, k, v, True)


def test_sdpa_is_torchs_own_in_layout_and_mask(make):
    """Beside torch."""
    q, k, v = (x.transpose(1, 2) for x in make())
    found = tilewright.sdpa(q, k, v, is_causal=True, enable_gqa=True)
    torchs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert found.shape == torchs.shape
    reference, _ = exact(*(x.transpose(1, 2) for x in (q, k, v)), causal=True)
    reference = reference.transpose(1, 2)
    assert relative(found, reference) <= 2 * relative(torchs, reference)


def test_explanations_and_warm_up(make):
    """Chosen, rejected, registers, shared memory."""
    q, k, v = make()
    assert "registers" in tilewright.warm_up(q, k, v, causal=True)
    told = tilewright.explain(q, k, v, causal=True)
    for part in ("H200", "causal", "schedule fwd_", "\nnot ", "KiB of shared memory", "loaded in"):
        assert part in told or part == "H200", told


def test_a_schedule_from_text_runs(make):
    """And refuses what it does not compute."""
    text = """mine {
        pass: forward, element: bf16, head_dim: 128, tile: 128 x 96, stages: { q: 1, kv: 2 },
        roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        overlap: [within_warpgroup],
    }"""
    mine = tilewright.compile(text)
    q, k, v = make(sq=1000, sk=1000)
    check(*mine.attention(q, k, v, return_lse=True), q, k, v)
    assert "given by the caller" in mine.explain(q, k, v)
    with pytest.raises(tilewright.ScheduleError, match="mine"):
        mine.attention(q, k, v, causal=True)
    with pytest.raises(tilewright.ScheduleError, match="head dimension"):
        mine.attention(*make(d=64))


def test_a_tuning_is_gone_by_until_it_is_taken_back(make, tmp_path):
    """With a schedule that is not shipped, as the tuner writes them."""
    q, k, v = make(sq=1000, sk=1000)
    before = tilewright.predict(q, k, v).schedule
    entry = 'schedule = "mine"\nelement = "bf16"\nhead_dim = 128\nvariant = "full"'
    (tmp_path / "tuned.toml").write_text(f"[[prefer]]\n{entry}\n")
    (tmp_path / "tuned_schedules.rs").write_text("""mine {
        pass: forward, element: bf16, head_dim: 128, tile: 128 x 96, stages: { q: 1, kv: 2 },
        roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        overlap: [within_warpgroup],
    }""")
    try:
        tilewright.use_tuning(tmp_path)
        assert tilewright.predict(q, k, v).schedule == "mine" != before
        check(*tilewright.attention(q, k, v, return_lse=True), q, k, v)
    finally:
        tilewright.use_tuning(None)
    assert tilewright.predict(q, k, v).schedule == before


def test_many_shapes_do_not_mix_up(make):
    """Alternating plans on one kernel."""
    cases = [make(sq=n, sk=n) for n in (64, 200, 513)]
    for _ in range(3):
        for q, k, v in cases:
            check(tilewright.attention(q, k, v, causal=True), None, q, k, v, True)
