"""8-bit attention without a GPU: what is refused, by the name of the tensor, and what comes as far as the driver."""

import pytest

import tilewright
from tilewright import DeviceError, InvalidArgument, NotSupported, _native, fp8

E4M3, E5M2, F32 = "torch.float8_e4m3fn", "torch.float8_e5m2", "torch.float32"


@pytest.fixture
def codes(tensor):
    """Q, K and V of 8 bits as a cache has them, four heads over two."""
    return [tensor(2, 128, heads, 128, dtype=E4M3) for heads in (4, 2, 2)]


def test_everything_comes_as_far_as_the_driver(qkv, codes, quantized, tensor):
    """Types and shapes that are taken, in every form; descales with strides of any kind."""
    expanded = tensor(2, 2, strides=(0, 0), dtype=F32)
    calls = [
        lambda: tilewright.attention_fp8(*qkv),
        lambda: tilewright.attention_fp8(*qkv, causal=True, scales="tensor", accumulate="accurate", out_dtype="float16"),
        lambda: tilewright.quantize(*qkv, incoherent=False, scales="head"),
        lambda: tilewright.attention_fp8(*qkv, all_at_once=False),
        lambda: tilewright.quantize(*qkv, all_at_once=False),
        lambda: tilewright.attention_quantized(quantized, causal=True, return_lse=True),
        lambda: tilewright.attention_quantized(*codes),
        lambda: tilewright.attention_fp8(*qkv, exponential="linear", out_dtype="float16"),
        lambda: tilewright.attention_quantized(quantized, exponential="linear"),
        lambda: tilewright.attention_quantized(*codes, exponential="linear", accumulate="auto"),
        lambda: tilewright.explain(quantized._replace(exponential="linear")),
        lambda: tilewright.attention_quantized(*codes, k_scale=tensor(1, dtype=F32), v_scale=expanded),
        lambda: tilewright.attention_quantized(*codes, q_scale=tensor(2, 4, dtype=F32), out_dtype="float16"),
        lambda: tilewright.attention_quantized(qkv[0], *codes[1:], rotation=3),
        lambda: tilewright.flash_attn_func(*codes, q_descale=expanded, k_descale=expanded, v_descale=expanded),
        lambda: tilewright.flash_attn_func(qkv[0], *codes[1:], causal=True),
        lambda: tilewright.explain(quantized),
        lambda: tilewright.predict(*codes, causal=True),
        lambda: tilewright.warm_up(*codes),
    ]
    for at, call in enumerate(calls):
        try:
            call()
        except DeviceError as error:
            if "no CUDA driver" not in str(error):
                pytest.skip(f"this machine has a driver: {error}")
        else:
            pytest.fail(f"call {at}: an answer without a GPU")


def test_words_that_mean_nothing_are_refused_with_those_that_do(qkv, codes):
    """By the argument's name."""
    with pytest.raises(InvalidArgument, match='scales = "row" is none of block, head, tensor'):
        tilewright.attention_fp8(*qkv, scales="row")
    with pytest.raises(InvalidArgument, match='accumulate = "slow" is none of fast, accurate, auto'):
        tilewright.attention_quantized(*codes, accumulate="slow")
    with pytest.raises(InvalidArgument, match='exponential = "unit" is none of exact, linear'):
        tilewright.attention_quantized(*codes, exponential="unit")
    with pytest.raises(InvalidArgument, match='exponential = "lineal" is none of exact, linear'):
        tilewright.attention_fp8(*qkv, exponential="lineal")
    with pytest.raises(NotSupported, match="out_dtype.*float32"):
        tilewright.attention_fp8(*qkv, out_dtype=F32)


def test_types_are_refused_with_the_call_that_takes_them(qkv, codes, tensor):
    """16 bits where 8 are wanted and the other way round, and two kinds of 8."""
    q, k, v = qkv
    with pytest.raises(NotSupported, match="q is of float8_e4m3fn.*attention_quantized"):
        tilewright.attention_fp8(*codes)
    with pytest.raises(NotSupported, match="q is of float8_e4m3fn.*attention_quantized"):
        tilewright.attention(*codes)
    with pytest.raises(InvalidArgument, match="k is of bfloat16, expected 8 bits.*attention_fp8"):
        tilewright.attention_quantized(q, k, v)
    with pytest.raises(InvalidArgument, match="k is of float8_e4m3fn, tensor v of float8_e5m2"):
        tilewright.attention_quantized(codes[0], codes[1], tensor(2, 128, 2, 128, dtype=E5M2))
    with pytest.raises(InvalidArgument, match="q is of float8_e5m2, tensor k of float8_e4m3fn"):
        tilewright.attention_quantized(tensor(2, 128, 4, 128, dtype=E5M2), *codes[1:])
    with pytest.raises(NotSupported, match="k is of uint8"):
        tilewright.attention_quantized(codes[0], *(tensor(2, 128, 2, 128, dtype="torch.uint8") for _ in range(2)))
    with pytest.raises(InvalidArgument, match="tensor v is missing"):
        tilewright.attention_quantized(*codes[:2])


@pytest.mark.parametrize(
    ("name", "shape"),
    [("q_scale", (2, 3)), ("k_scale", (2, 4)), ("v_scale", (2, 2, 2)), ("k_scale", (2, 2, 2)), ("v_scale", (2,))],
)
def test_scales_of_a_shape_that_the_tensor_cannot_have_are_refused(codes, tensor, name, shape):
    """With those that it can."""
    with pytest.raises(
        InvalidArgument, match=rf"tensor {name} has shape .*expected \[1\] \(tensor\) or \[2, 2\] \(kv_head\)"
    ):
        tilewright.attention_quantized(*codes, **{name: tensor(*shape, dtype=F32)})


def test_scales_are_float32_on_the_gpu_of_their_tensor(codes, tensor):
    """And tensors at all."""
    with pytest.raises(InvalidArgument, match="k_scale is of bfloat16 on GPU 0, expected float32 on GPU 0"):
        tilewright.attention_quantized(*codes, k_scale=tensor(2, 2))
    with pytest.raises(InvalidArgument, match="v_scale is of float32 on GPU 1"):
        tilewright.attention_quantized(*codes, v_scale=tensor(2, 2, dtype=F32, device=1))
    with pytest.raises(InvalidArgument, match="q_scale is a float"):
        tilewright.attention_quantized(*codes, q_scale=0.5)
    with pytest.raises(InvalidArgument, match="q_scale has 4 dimensions"):
        tilewright.attention_quantized(*codes, q_scale=tensor(2, 2, 1, 1, dtype=F32))


def test_queries_of_16_bits_get_their_scales_here(qkv, codes, tensor):
    """And codes were rotated before."""
    with pytest.raises(InvalidArgument, match="q is of bfloat16.*leave q_scale out"):
        tilewright.attention_quantized(qkv[0], *codes[1:], q_scale=tensor(2, 2, dtype=F32))
    with pytest.raises(InvalidArgument, match="q is of float8_e4m3fn.*leave rotation out"):
        tilewright.attention_quantized(*codes, rotation=1)


def test_what_a_quantized_has_is_not_given_again(quantized, tensor):
    """Its scales, and itself."""
    with pytest.raises(InvalidArgument, match="its own k_scale"):
        tilewright.attention_quantized(quantized, k_scale=tensor(2, 2, dtype=F32))
    with pytest.raises(InvalidArgument, match="its own k:"):
        tilewright.attention_quantized(quantized, quantized.k)


def test_a_quantized_whose_parts_do_not_go_together_is_refused(quantized, tensor):
    """Transposed V by its filled-up keys, scales of K by the key tile."""
    with pytest.raises(InvalidArgument, match=r"v has shape .*expected \[2, 2, 128, 304\] = \[B, Hk, Dv, Sk filled"):
        tilewright.attention_quantized(quantized._replace(v=tensor(2, 2, 128, 300, dtype=E4M3)))
    with pytest.raises(InvalidArgument, match=r"k_scale has shape \[2, 2, 5\], expected .*\[2, 2, 4\] \(block\(96\)\)"):
        tilewright.attention_quantized(quantized._replace(k_scale=tensor(2, 2, 5, dtype=F32)))
    for dim, rows in ((64, 128), (96, 128), (128, 96)):
        assert [_native.key_block(dim, dim, 1, how) for how in ("fast", "accurate")] == [rows] * 2


def test_how_p_is_made_is_what_a_quantized_says_unless_the_call_does(quantized):
    """As with sums; the codes are the same."""

    def made(told, q=quantized, k=None, v=None):
        return fp8._arguments(q, k, v, (None, None, None), (None, told), None, None).exponential

    assert quantized.exponential == "exact" and (made(None), made("linear")) == ("exact", "linear")
    linear = quantized._replace(exponential="linear")
    assert (made(None, linear), made("exact", linear)) == ("linear", "exact")
    codes = (quantized.q, quantized.k, quantized.k)
    assert (made(None, *codes), made("linear", *codes)) == ("exact", "linear")


def test_descales_of_16_bits_are_refused(qkv, tensor):
    """By FlashAttention-3's name."""
    with pytest.raises(NotSupported, match="k_descale"):
        tilewright.flash_attn_func(*qkv, k_descale=tensor(2, 2, dtype=F32))


def test_shapes_are_refused_by_tensor(codes, tensor):
    """As in 16 bits."""
    q, k, v = codes
    with pytest.raises(InvalidArgument, match=r"v has shape .*\[B, Sk, Hk, Dv\]|k has shape"):
        tilewright.attention_quantized(q, k, tensor(2, 127, 2, 128, dtype=E4M3))
    with pytest.raises(InvalidArgument, match="q has 3 dimensions"):
        tilewright.attention_fp8(tensor(128, 4, 128), k, v)
    with pytest.raises(InvalidArgument, match="q is a list"):
        tilewright.attention_fp8([1], [1], [1])
    for dims in ((80, 80), (192, 128)):
        with pytest.raises(NotSupported, match="head dimension"):
            _native.key_block(*dims, 1, "fast")
    with pytest.raises(NotSupported, match="keeps sums of O in the tensor cores"):
        _native.key_block(256, 256, 1, "accurate")
