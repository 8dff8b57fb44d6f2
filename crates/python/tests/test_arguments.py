"""Arguments that are refused, each with its name, before anybody asks for a GPU."""

import pytest

import tilewright
from tilewright import InvalidArgument, NotSupported


@pytest.mark.parametrize(
    "argument", [{"window": (3, 0)}, {"softcap": 30.0}, {"window": 128}], ids=lambda argument: next(iter(argument))
)
def test_what_attention_does_not_do_is_refused_by_name(qkv, argument):
    """And defaults in other spellings are not."""
    with pytest.raises(NotSupported, match=next(iter(argument))):
        tilewright.attention(*qkv, **argument)


@pytest.mark.parametrize("window", [None, (-1, -1), [-1, -1], (None, None)])
def test_a_window_that_hides_nothing_is_none(qkv, window):
    """The call comes as far as the driver."""
    with pytest.raises(tilewright.DeviceError):
        tilewright.attention(*qkv, window=window, softcap=0.0)


@pytest.mark.parametrize(
    "argument",
    [
        {"dropout_p": 0.1},
        {"window_size": (128, 0)},
        {"softcap": 1.0},
        {"alibi_slopes": [0.5]},
        {"num_splits": 4},
        {"pack_gqa": True},
        {"qv": object()},
        {"attention_chunk": 64},
        {"q_descale": 1.0},
        {"sm_margin": 2},
    ],
    ids=lambda argument: next(iter(argument)),
)
def test_what_flash_attention_has_and_this_has_not_is_refused_by_name(qkv, argument):
    """Both of FlashAttention-2's arguments and of FlashAttention-3's."""
    with pytest.raises(NotSupported, match=next(iter(argument))):
        tilewright.flash_attn_func(*qkv, **argument)


def test_flash_attentions_defaults_are_taken(qkv):
    """By place as by name."""
    with pytest.raises(tilewright.DeviceError):
        tilewright.flash_attn_func(*qkv, 0.0, None, True, (-1, -1), 0.0, None, True, True)
    with pytest.raises(tilewright.DeviceError):
        tilewright.flash_attn_func(*qkv, causal=True, num_splits=1, pack_gqa=None, sm_margin=0, q_descale=None)
    with pytest.raises(TypeError, match="softmax_skale"):
        tilewright.flash_attn_func(*qkv, softmax_skale=1.0)


def test_sdpa_refuses_masks_dropout_and_a_causal_mask_that_torch_would_align_elsewhere(tensor):
    """Torch's top left is not the bottom right of a decoder."""
    q, k = tensor(2, 4, 128, 128), tensor(2, 4, 256, 128)
    with pytest.raises(NotSupported, match="attn_mask"):
        tilewright.sdpa(q, q, q, attn_mask=tensor(128, 128))
    with pytest.raises(NotSupported, match="dropout_p"):
        tilewright.sdpa(q, q, q, dropout_p=0.5)
    with pytest.raises(NotSupported, match="top left.*128 and 256"):
        tilewright.sdpa(q, k, k, is_causal=True)
    with pytest.raises(InvalidArgument, match="enable_gqa"):
        tilewright.sdpa(q, tensor(2, 2, 128, 128), tensor(2, 2, 128, 128))
    with pytest.raises(InvalidArgument, match="key has 3 dimensions"):
        tilewright.sdpa(q, tensor(4, 128, 128), q)


def test_shapes_that_do_not_go_together_are_refused_by_tensor(tensor):
    """With every shape in the message."""
    q, k, v = tensor(2, 128, 4, 128), tensor(2, 256, 2, 128), tensor(2, 256, 2, 64)
    for bad, name in [
        ((q, tensor(2, 256, 128), v), "k has 3 dimensions, expected 4"),
        ((q, tensor(2, 255, 2, 128), v), "k has shape"),
        ((q, tensor(1, 256, 2, 128), v), "k has shape"),
        ((q, k, tensor(3, 256, 2, 64)), "v has shape"),
        ((tensor(128, 4, 128), k, v), "q has 3 dimensions"),
    ]:
        with pytest.raises(InvalidArgument, match=name):
            tilewright.attention(*bad)
    with pytest.raises(InvalidArgument, match=r"out has shape .* = \[B, Sq, Hq, Dv\]"):
        tilewright.attention(q, k, v, out=tensor(2, 128, 4, 128))


def test_types_and_devices_must_agree(tensor, qkv):
    """Half of one and half of another is a mistake."""
    q, k, v = qkv
    with pytest.raises(InvalidArgument, match="q is of bfloat16, tensor k of float16"):
        tilewright.attention(q, tensor(*k.shape, dtype="torch.float16"), v)
    with pytest.raises(InvalidArgument, match="q is on GPU 0, tensor v on GPU 1"):
        tilewright.attention(q, k, tensor(*v.shape, device=1))
    floats = [tensor(*x.shape, dtype="torch.float32") for x in qkv]
    with pytest.raises(NotSupported, match="float32.*bfloat16 or float16"):
        tilewright.attention(*floats)
    fp8 = [tensor(*x.shape, dtype="torch.float8_e4m3fn") for x in qkv]
    with pytest.raises(NotSupported, match="float8_e4m3fn"):
        tilewright.attention(*fp8)


def test_a_last_dimension_with_gaps_is_refused_with_the_way_out(tensor, qkv):
    """A copy is the caller's to make."""
    _, k, v = qkv
    gaps = tensor(2, 128, 4, 128, strides=(131072, 1024, 256, 2))
    with pytest.raises(InvalidArgument, match=r"q .*last dimension.*contiguous\(\)"):
        tilewright.attention(gaps, k, v)


def test_what_is_no_tensor_is_refused():
    """By what it is."""
    with pytest.raises(InvalidArgument, match="list"):
        tilewright.attention([1], [1], [1])


class Dlpack:
    """An array in the memory of some device, by DLPack's number."""

    dtype = "float16"

    def __init__(self, device_type: int) -> None:
        self.shape = (1, 128, 2, 64)
        self._device_type = device_type

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device_type, 0

    def __dlpack__(self, **_: object) -> object:
        return object()


def test_dlpack_arrays_come_as_far_as_the_driver():
    """Wherever they are: there is no GPU to move them to."""
    for device_type in (1, 2, 10):
        with pytest.raises(tilewright.DeviceError, match="driver"):
            tilewright.attention(*(Dlpack(device_type) for _ in range(3)))
