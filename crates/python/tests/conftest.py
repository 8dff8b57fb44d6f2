"""A stand-in for torch's tensors, which are gigabytes away: an object with the attributes that the package reads."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright


class Device:
    """A GPU by its number, or the CPU."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.type = "cpu" if index is None else "cuda"

    def __str__(self) -> str:
        return self.type if self.index is None else f"cuda:{self.index}"


class Tensor:
    """Shape, strides, type and device of a tensor, with an address that nobody may follow."""

    def __init__(
        self,
        *shape: int,
        strides: tuple[int, ...] | None = None,
        dtype: str = "torch.bfloat16",
        device: int | None = 0,
        address: int = 0x7000_0000,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = Device(device)
        self.is_cuda = device is not None
        self.requires_grad = False
        self._address = address
        packed = [1]
        for extent in reversed(shape[1:]):
            packed.insert(0, packed[0] * extent)
        self._strides = tuple(packed) if strides is None else strides

    def stride(self, at: int | None = None) -> Any:
        """All of them, or one."""
        return self._strides if at is None else self._strides[at]

    def data_ptr(self) -> int:
        """The address."""
        return self._address

    def contiguous(self) -> Tensor:
        """Without gaps."""
        return Tensor(*self.shape, dtype=self.dtype, device=self.device.index)

    def transpose(self, a: int, b: int) -> Tensor:
        """Two dimensions in each other's place."""
        shape, strides = list(self.shape), list(self._strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return Tensor(*shape, strides=tuple(strides), dtype=self.dtype, device=self.device.index)

    def new_empty(self, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        """Of the same type and device."""
        return Tensor(*shape, dtype=dtype or self.dtype, device=self.device.index)


@pytest.fixture
def tensor() -> type[Tensor]:
    """The stand-in's class."""
    return Tensor


@pytest.fixture
def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Tensors that go together, four heads over two."""
    return Tensor(2, 128, 4, 128), Tensor(2, 128, 2, 128), Tensor(2, 128, 2, 128)


@pytest.fixture
def quantized(tensor: type[Tensor]) -> Any:
    """What `quantize` would write of 200 queries over 300 keys."""
    q, k, v = (
        tensor(*shape, dtype="torch.float8_e4m3fn") for shape in ((2, 200, 4, 128), (2, 300, 2, 128), (2, 2, 128, 304))
    )
    scales = (tensor(*shape, dtype="torch.float32") for shape in ((2, 4, 4), (2, 2, 4), (2, 2)))
    return tilewright.Quantized(q, k, v, *scales, "bfloat16", "fast", 0)
