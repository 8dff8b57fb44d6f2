"""8-bit attention on torch tensors, against float64 and beside the same rounding written down in torch."""

import pytest
import torch
from conftest import exact, relative

import tilewright

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
#: Largest values of the 8-bit types.
MOST = {E4M3: 448.0, E5M2: 57344.0}


def dequantized(x, scale):
    """8-bit `[B, S, H, D]` with scales `[B, H]` in float32."""
    return x.float() * scale.float()[:, None, :, None]


def by_head(x, dtype=E4M3, heads=None):
    """Codes and scales `[B, H]`, or those of groups of query heads that share a key head."""
    b, s, h, d = x.shape
    grouped = x.float().reshape(b, s, heads or h, -1)
    scale = grouped.abs().amax((1, 3)) / MOST[dtype]
    codes = (grouped / scale[:, None, :, None]).to(dtype)
    return codes.reshape(b, s, h, d), scale


def written_down(q, k, v, causal=False):
    """What 8 bits reach in torch: Q, K and V with a scale a head, P in e4m3 up to 2^8, summed as it was rounded."""
    q, k, v = (dequantized(*by_head(x)).double().transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(columns - rows + 1)
        scores = scores.masked_fill(hidden, -float("inf"))
    p = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e30))
    p = (p * 256).float().to(E4M3).double()
    return (p @ v / p.sum(-1, keepdim=True)).nan_to_num(0.0).transpose(1, 2)


def near(found, q, k, v, causal=False, room=1.3):
    """Within so many times the error of the same rounding in torch; an error that is far from any mistake's."""
    o, _ = exact(q, k, v, causal)
    error, reached = relative(found, o), relative(written_down(q, k, v, causal), o)
    assert error <= room * reached, f"error of O {error:.2e}, in torch {reached:.2e}"
    return error


def near_codes(found, lse, q, k, v, causal=False, scale=None):
    """Of codes that are taken as they are: only P is rounded, by 2.6 %, and with it the sum that LSE is of."""
    o, exact_lse = exact(q, k, v, causal, scale)
    error = relative(found, o)
    assert error <= 0.04, f"error of O {error:.2e}"
    if lse is not None:
        hidden = torch.isinf(exact_lse)
        assert torch.equal(torch.isinf(lse), hidden)
        assert (lse.double() - exact_lse)[~hidden].abs().max().item() <= 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 192, 256])
def test_every_head_dimension_type_and_mask(make, d, causal, dtype):
    """Shapes that are no multiple of a tile, grouped heads."""
    q, k, v = make(d=d, dtype=dtype)
    o, lse = tilewright.attention_fp8(q, k, v, causal=causal, return_lse=True)
    assert o.shape == q.shape and o.dtype == dtype and lse.dtype == torch.float32
    near(o, q, k, v, causal)
    assert (lse.double() - exact(q, k, v, causal)[1]).abs().max().item() <= 0.25


@pytest.mark.parametrize("incoherent", [False, True])
@pytest.mark.parametrize("scales", ["block", "head", "tensor"])
def test_every_kind_of_scale_with_and_without_a_rotation(make, scales, incoherent):
    """One scale for all is the coarsest."""
    q, k, v = make(sq=700, sk=900)
    near(tilewright.attention_fp8(q, k, v, scales=scales, incoherent=incoherent), q, k, v)


def test_a_rotation_pays_where_there_are_outliers(make):
    """As the FlashAttention-3 paper has it."""
    q, k, v = make(sq=1024, sk=1024)
    for x in (q, k, v):
        x += torch.randn_like(x) * 10 * (torch.rand_like(x) < 0.001)
    o, _ = exact(q, k, v)
    spread, plain = (relative(tilewright.attention_fp8(q, k, v, incoherent=on, scales="tensor"), o) for on in (True, False))
    assert spread < 0.7 * plain, f"{spread} {plain}"


@pytest.mark.parametrize("causal", [False, True])
def test_the_halves_are_the_whole(make, causal):
    """To the bit, as often as wanted, and in another type."""
    q, k, v = make(sq=450, sk=600)
    for scales in ("block", "head", "tensor"):
        whole, lse = tilewright.attention_fp8(q, k, v, causal=causal, scales=scales, return_lse=True)
        parts = tilewright.quantize(q, k, v, scales=scales)
        assert parts.q.dtype == E4M3 and parts.q.shape == q.shape and parts.v.shape == (2, 2, 128, 608)
        for _ in range(2):
            o, again = tilewright.attention_quantized(parts, causal=causal, return_lse=True)
            assert torch.equal(o, whole) and torch.equal(again, lse)
    other = tilewright.attention_quantized(parts, causal=causal, out_dtype=torch.float16)
    assert other.dtype == torch.float16
    assert relative(other, whole.double()) < 0.01
    assert torch.equal(other, tilewright.attention_fp8(q, k, v, causal=causal, scales="tensor", out_dtype=torch.float16))


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_a_cache_is_taken_as_it_is(make, d, causal, dtype):
    """FlashAttention-3's descales, expanded ones among them, and none."""
    (q, qs), (k, ks), (v, vs) = (by_head(x, dtype, 2) for x in make(d=d, sq=333, sk=500))
    o, lse = tilewright.attention_quantized(q, k, v, q_scale=qs, k_scale=ks, v_scale=vs, causal=causal, return_lse=True)
    assert o.dtype == torch.bfloat16
    wide = dequantized(q.reshape(2, 333, 2, -1), qs).reshape(q.shape)
    near_codes(o, lse, wide, dequantized(k, ks), dequantized(v, vs), causal)
    unit = 4 / MOST[dtype]
    one = torch.full((1,), unit, device="cuda")
    expanded = tilewright.attention_quantized(
        q, k, v, q_scale=one.view(1, 1).expand(2, 2), k_scale=one, v_scale=one.expand(2, 2).contiguous(), causal=causal
    )
    near_codes(expanded, None, *(x.float() * unit for x in (q, k, v)), causal)
    scale = unit * unit * d**-0.5
    near_codes(tilewright.attention_quantized(q, k, v, scale=scale), None, q.float(), k.float(), v.float(), scale=scale)


def test_scales_of_query_heads(make):
    """One for each, where key heads are shared."""
    (q, qs), (k, ks), (v, vs) = (by_head(x) for x in make())
    assert qs.shape == (2, 4) and ks.shape == (2, 2)
    o = tilewright.attention_quantized(q, k, v, q_scale=qs, k_scale=ks, v_scale=vs)
    near_codes(o, None, dequantized(q, qs), dequantized(k, ks), dequantized(v, vs))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_queries_of_16_bits_over_a_cache(make, dtype):
    """Rounded on the way, by blocks of 64 rows."""
    q, k, v = make(sq=77, sk=1000, dtype=dtype)
    (k8, ks), (v8, vs) = by_head(k), by_head(v)
    o = tilewright.attention_quantized(q, k8, v8, k_scale=ks, v_scale=vs, causal=True)
    assert o.dtype == dtype
    near(o, q, dequantized(k8, ks), dequantized(v8, vs), True)
    # K that quantize rotated takes a Q that is rotated by the same.
    parts = tilewright.quantize(q, k, v, scales="head", seed=5)
    rotated = tilewright.attention_quantized(q, parts.k, v8, k_scale=parts.k_scale, v_scale=vs, rotation=5, causal=True)
    near(rotated, q, k, v, True)


@pytest.mark.parametrize("scales", ["block", "tensor"])
def test_the_codes_are_the_same_however_rounding_is_launched(make, scales):
    """With V read once and twice."""
    q, k, v = make(sk=3000)
    once, twice = (tilewright.quantize(q, k, v, scales=scales, all_at_once=yes) for yes in (True, False))
    for one, other in zip(once[:6], twice[:6], strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def test_flash_attn_func_takes_8_bits_as_flashattention_3_does(make):
    """By its names."""
    (q, qs), (k, ks), (v, vs) = (by_head(x, heads=2) for x in make())
    out, lse, _ = tilewright.flash_attn_func(
        q, k, v, causal=True, q_descale=qs, k_descale=ks, v_descale=vs, return_attn_probs=True
    )
    wide = dequantized(q.reshape(2, 300, 2, -1), qs).reshape(q.shape)
    near_codes(out, lse, wide, dequantized(k, ks), dequantized(v, vs), True)
    with pytest.raises(tilewright.InvalidArgument, match=r"k_scale has shape \[2, 4\]"):
        tilewright.flash_attn_func(q, k, v, k_descale=torch.ones(2, 4, device="cuda"))


def test_long_rows_of_one_sign_keep_their_bits_where_asked(make):
    """The tensor cores' own sums lose them: of O and of the row sums alike, which the log-sum-exp tells."""
    q, k, v = make(b=1, sq=128, sk=32768, hq=2, hk=2)
    v = v.abs() + 1
    o, lse = exact(q, k, v)
    found = [tilewright.attention_fp8(q, k, v, accumulate=how, return_lse=True) for how in ("fast", "accurate", "auto")]
    assert all(relative(of, o) < 0.02 for of, _ in found[1:])
    fast, accurate, chosen = ((of.double() - lse).abs().max().item() for _, of in found)
    assert fast > 4 * accurate and chosen == accurate, f"{fast} {accurate} {chosen}"
    with pytest.raises(tilewright.NotSupported, match="sums of O"):
        tilewright.attention_fp8(*make(d=256), accumulate="accurate")


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("out", ["bfloat16", "float16"])
def test_linear_exponentials_are_another_schedule_that_is_nearly_as_right(make, d, out):
    """In one call as in two, and not where sums are accurate."""
    q, k, v = make(d=d)
    o, _ = exact(q, k, v, True)
    parts = tilewright.quantize(q, k, v, exponential="linear")
    assert tilewright.predict(parts, causal=True).schedule.startswith("fwd_linear_e4m3")
    assert tilewright.predict(parts._replace(accumulate="accurate"), causal=True).schedule.startswith("fwd_long_e4m3")
    one = tilewright.attention_fp8(q, k, v, causal=True, exponential="linear", out_dtype=out)
    assert torch.equal(one, tilewright.attention_quantized(parts, causal=True, out_dtype=out))
    plain = tilewright.attention_quantized(parts, causal=True, exponential="exact", out_dtype=out)
    assert not torch.equal(one, plain)
    off, best = relative(one, o), relative(plain, o)
    assert off < 1.5 * best, f"{off} linear, {best} exact"


@pytest.mark.parametrize("incoherent", [False, True])
def test_a_nan_stays_in_its_row(make, incoherent):
    """Of Q: the row, and nothing of any other."""
    q, k, v = make()
    # What is not finite takes no part in its block's maximum, and this row never had it.
    q[1, 17, 2] *= 0.1
    right = tilewright.attention_fp8(q, k, v, incoherent=incoherent)
    q[1, 17, 2, 5] = float("nan")
    found = tilewright.attention_fp8(q, k, v, incoherent=incoherent)
    assert found[1, 17, 2].isnan().all()
    found[1, 17, 2] = right[1, 17, 2]
    assert torch.equal(found, right)


def test_layouts_are_strides_and_no_copies(make):
    """Heads before tokens, and slices of a packed tensor, of 16 bits and of 8."""
    q, k, v = make(hq=4, hk=4)
    right = tilewright.attention_fp8(q, k, v, causal=True)
    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(tilewright.attention_fp8(*heads_first, causal=True), right)
    packed = torch.stack([q, k, v], 2)
    assert torch.equal(tilewright.attention_fp8(*packed.unbind(2), causal=True), right)
    eight = packed.to(E4M3)
    whole = tilewright.attention_quantized(*(x.contiguous() for x in eight.unbind(2)))
    assert torch.equal(tilewright.attention_quantized(*eight.unbind(2)), whole)


def test_empty_tensors_launch_nothing(make):
    """No row, and rows without keys."""
    assert tilewright.attention_fp8(*make(b=0)).shape == (0, 300, 4, 128)
    o, lse = tilewright.attention_fp8(*make(sk=0), return_lse=True)
    assert (o == 0).all() and (lse == -float("inf")).all()
    q, k, v = (x.to(E4M3) for x in make(sk=0))
    o, lse = tilewright.attention_quantized(q, k, v, k_scale=torch.ones(2, 2, device="cuda"), return_lse=True)
    assert (o == 0).all() and (lse == -float("inf")).all()


@pytest.mark.parametrize("accumulate", ["fast", "accurate"])
def test_a_schedule_from_text_runs(make, accumulate):
    """And refuses what it does not compute."""
    asked = {"fast": "exponential: linear(2)", "accurate": "accumulate: every(2)"}[accumulate]
    mine = tilewright.compile(f"""mine {{
        pass: forward, element: e4m3, head_dim: 128, tile: 128 x 96, stages: {{ q: 1, kv: 3 }},
        roles: {{ producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) }},
        overlap: [within_warpgroup], rescale: above(3.8), row_sum: tensor_core, {asked},
    }}""")
    q, k, v = make(sq=1000, sk=1000)
    parts = tilewright.quantize(q, k, v)
    near(mine.attention_quantized(parts), q, k, v, room=1.6)
    with pytest.raises(tilewright.ScheduleError, match="mine"):
        mine.attention_quantized(parts, causal=True)


def test_work_goes_to_the_callers_stream(make):
    """After what is there, and workspaces of many calls do not mix."""
    q, k, v = make(sq=2048, sk=2048)
    right = tilewright.attention_fp8(q, k, v, causal=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        big = torch.randn(8192, 8192, device="cuda")
        for _ in range(5):
            big = big @ big / 90
        late = q + 0 * big[0, 0].to(q.dtype).nan_to_num(0)
        found = [tilewright.attention_fp8(late, k, v, causal=True) for _ in range(8)]
    others = [tilewright.attention_fp8(q, k, v, causal=True) for _ in range(8)]
    torch.cuda.current_stream().wait_stream(side)
    assert all(torch.equal(o, right) for o in found + others)


@pytest.mark.parametrize("causal", [False, True], ids=["static grid", "dynamic grid"])
def test_a_graph_replays_with_new_data(make, causal):
    """Rounding and multiplying are recorded, each rounding with words of its own."""
    q, k, v = make(sq=1500, sk=1500, hq=16, hk=4)
    tilewright.attention_fp8(q, k, v, causal=causal)
    tilewright.attention_quantized(tilewright.quantize(q, k, v, scales="tensor"), causal=causal)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once = tilewright.attention_fp8(q, k, v, causal=causal)
        parts = tilewright.quantize(q, k, v, scales="tensor")
        twice = tilewright.attention_quantized(parts, causal=causal)
    for _ in range(4):
        for x in (q, k, v):
            x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        near(once, q, k, v, causal)
        near(twice, q, k, v, causal)


def test_everything_compiles_into_one_graph(make):
    """With the operations around it, and at another length."""

    @torch.compile(fullgraph=True)
    def layer(q, k, v):
        parts = tilewright.quantize(q * 2, k, v)
        both = tilewright.attention_quantized(parts, causal=True), tilewright.attention_fp8(q * 2, k, v, causal=True)
        return both[0] + 1, both[1] + 1

    @torch.compile(fullgraph=True)
    def cached(q, k, v, scale):
        return tilewright.flash_attn_func(q, k, v, k_descale=scale, v_descale=scale, causal=True) * 1

    for n in (300, 512):
        q, k, v = make(sq=n, sk=n)
        for found in layer(q, k, v):
            near(found - 1, q * 2, k, v, True)
        (k8, ks), (v8, _) = by_head(k), by_head(v)
        o = cached(q, k8, v8, ks)
        near(o, q, dequantized(k8, ks), dequantized(v8, ks), True)


def test_the_operators_hold_torchs_rules(make):
    """Schemas, fake implementations, autograd registration."""
    q, k, v = make()
    parts = tilewright.quantize(q, k, v)
    operators = torch.ops.tilewright
    torch.library.opcheck(operators.attention_fp8, (q, k, v, True, None, True, "block", "fast", "exact", 0, True))
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(operators.quantize, (q, k, v, True, "block", "fast", 0, True), test_utils=utilities)
    arguments = (*parts[:6], True, None, "fast", "bfloat16", True, None, "linear")
    # Its schema is not tried: torch compares inputs before and after, and compares no 8-bit floats.
    torch.library.opcheck(operators.attention_quantized, arguments, test_utils=utilities[1:])


def test_gradients_say_that_there_is_no_backward_pass(make):
    """Forward is fine, backward names the way out."""
    q, k, v = make()
    q.requires_grad_()
    o = tilewright.attention_fp8(q, k, v)
    with pytest.raises(tilewright.NotSupported, match="no_grad"):
        o.sum().backward()


def test_questions_are_answered_of_8_bits_too(make):
    """Chosen, rejected, predicted, loaded."""
    q, k, v = make()
    parts = tilewright.quantize(q, k, v)
    assert "registers" in tilewright.warm_up(parts, causal=True)
    told = tilewright.explain(parts, causal=True)
    assert "schedule fwd_e4m3_d128_causal" in told and "\nnot " in told
    found = tilewright.predict(*(x.to(E4M3) for x in (q, k, v)))
    assert found.schedule.startswith("fwd_rows_e4m3_d128") and found.seconds > 0 and not found.calibrated


def test_cupy_arrays_stay_cupys(make):
    """Codes are bytes there."""
    cupy = pytest.importorskip("cupy")
    tensors = make(dtype=torch.float16)
    torch.cuda.synchronize()
    arrays = [cupy.from_dlpack(x) for x in tensors]
    o = tilewright.attention_fp8(*arrays, causal=True)
    parts = tilewright.quantize(*arrays)
    again = tilewright.attention_quantized(parts, causal=True)
    assert isinstance(o, cupy.ndarray) and parts.q.dtype == cupy.uint8
    cupy.cuda.get_current_stream().synchronize()
    near(torch.from_dlpack(o), *tensors, True)
    assert torch.equal(torch.from_dlpack(o), torch.from_dlpack(again))


def test_arrays_that_speak_dlpack_alone(make):
    """What is computed is ready, in memory of ours."""

    class Array:
        def __init__(self, tensor):
            self._tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")

        def __dlpack_device__(self):
            return self._tensor.__dlpack_device__()

        def __dlpack__(self, **how):
            return self._tensor.__dlpack__(**how)

    tensors = make()
    torch.cuda.synchronize()
    arrays = [Array(x) for x in tensors]
    o = torch.from_dlpack(tilewright.attention_fp8(*arrays))
    near(o, *tensors)
    parts = tilewright.quantize(*arrays)
    assert isinstance(parts.q, tilewright.DeviceArray) and parts.q.dtype == "uint8"
    assert torch.equal(torch.from_dlpack(tilewright.attention_quantized(parts)), o)
