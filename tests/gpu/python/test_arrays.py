"""CuPy and JAX arrays, by the protocols that they speak. Each is not run where it is not installed."""

import pytest
import torch
from conftest import check

import tilewright


def test_cupy_arrays_stay_cupys(make):
    """Memory and stream of CuPy."""
    cupy = pytest.importorskip("cupy")
    tensors = make(dtype=torch.float16)
    torch.cuda.synchronize()
    arrays = [cupy.from_dlpack(x) for x in tensors]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        o, lse = tilewright.attention(*arrays, causal=True, return_lse=True)
        assert isinstance(o, cupy.ndarray) and o.dtype == cupy.float16
        stream.synchronize()
    check(torch.from_dlpack(o), torch.from_dlpack(lse), *tensors, True)


def test_an_array_interface_is_enough(make):
    """Whose owner speaks nothing else."""

    class Array:
        def __init__(self, tensor):
            self._tensor = tensor
            self.shape = tuple(tensor.shape)
            self.dtype = "float16"
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    tensors = make(dtype=torch.float16)
    torch.cuda.synchronize()
    o = tilewright.attention(*map(Array, tensors))
    torch.cuda.synchronize()
    check(torch.from_dlpack(o), None, *tensors)
    view = torch.as_tensor(o, device="cuda")
    assert view.data_ptr() == torch.from_dlpack(o).data_ptr()


def test_jax_arrays_give_one_that_jax_takes(make):
    """Brain floats by DLPack."""
    jax = pytest.importorskip("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("not run: JAX sees no GPU")
    tensors = make()
    torch.cuda.synchronize()
    arrays = [jax.dlpack.from_dlpack(x) for x in tensors]
    o, lse = tilewright.attention(*arrays, causal=True, return_lse=True)
    found = jax.dlpack.from_dlpack(o)
    assert found.shape == (2, 300, 4, 128) and str(found.dtype) == "bfloat16"
    found = torch.from_dlpack(o)
    del o
    check(found, torch.from_dlpack(lse), *tensors, True)


def test_an_array_of_ours_outlives_its_handle():
    """Whoever took it keeps it."""
    array = tilewright.DeviceArray((3, 5), "float32", 0)
    tensor = torch.from_dlpack(array)
    del array
    tensor.fill_(2.0)
    assert tensor.sum().item() == 30.0
