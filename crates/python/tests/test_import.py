"""Importing needs neither a GPU nor torch, and a call says which of them is missing."""

import subprocess
import sys

import pytest

import tilewright


def test_everything_that_is_named_is_there_and_says_what_it_does():
    """Names and docstrings."""
    for name in tilewright.__all__:
        found = getattr(tilewright, name)
        assert name == "__version__" or found.__doc__, name
    assert tilewright.__version__.count(".") == 2


def test_importing_loads_no_framework():
    """Torch alone would take seconds."""
    script = "import sys, tilewright; print(sorted({'torch', 'cupy', 'jax', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_call_without_a_gpu_says_so(qkv):
    """It is the driver that is missing here, and its message says what to install."""
    calls = [
        lambda: tilewright.attention(*qkv),
        lambda: tilewright.explain(*qkv),
        lambda: tilewright.predict(*qkv),
        lambda: tilewright.warm_up(*qkv),
        lambda: tilewright.flash_attn_func(*qkv),
        lambda: tilewright.sdpa(*(x.transpose(1, 2) for x in qkv), enable_gqa=True),
        lambda: tilewright.reserve_counters(10),
        lambda: tilewright.DeviceArray((2, 3), "float32", 0),
    ]
    for call in calls:
        try:
            call()
        except tilewright.DeviceError as error:
            if "no CUDA driver" not in str(error):
                pytest.skip(f"this machine has a driver: {error}")
        else:
            pytest.fail("an answer without a GPU")


def test_a_tensor_on_the_cpu_asks_for_the_gpu_that_is_not_there(tensor):
    """Moving it would not help."""
    q = tensor(2, 128, 4, 128, device=None)
    with pytest.raises(tilewright.DeviceError, match="driver"):
        tilewright.attention(q, q, q)


def test_errors_are_of_pythons_own_classes_too():
    """So that `except ValueError` does what a reader expects."""
    assert issubclass(tilewright.InvalidArgument, ValueError)
    assert issubclass(tilewright.ScheduleError, ValueError)
    assert issubclass(tilewright.DeviceError, RuntimeError)
    assert issubclass(tilewright.NotSupported, NotImplementedError)
    for error in (tilewright.InvalidArgument, tilewright.ScheduleError, tilewright.DeviceError, tilewright.NotSupported):
        assert issubclass(error, tilewright.Error)
