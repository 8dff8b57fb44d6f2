"""What is measured: the FlashAttention-3 paper's grid, grouped heads, small launches, decoding."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: Batch times sequence length of the paper's grid.
TOKENS = 16384
#: Query heads times head dimension of it.
HIDDEN = 2048


@dataclass(frozen=True)
class Cell:
    """One shape. Q `[batch, seqlen, heads, head_dim]`, K and V `[batch, keys, kv_heads, head_dim]`."""

    head_dim: int
    causal: bool
    seqlen: int
    batch: int
    heads: int
    kv_heads: int
    keys: int
    dtype: str = "bf16"

    @property
    def flops(self) -> float:
        """Of the forward pass, by the paper's count: 4 B H Sq Sk D, half of it where causal."""
        work = 4.0 * self.batch * self.heads * self.seqlen * self.keys * self.head_dim
        return work / 2 if self.causal else work

    @property
    def mask(self) -> str:
        """`causal` or `full`."""
        return "causal" if self.causal else "full"

    @property
    def label(self) -> str:
        """As progress shows it."""
        grouped = f" heads {self.heads}/{self.kv_heads}" if self.heads != self.kv_heads else ""
        keys = f" over {self.keys}" if self.keys != self.seqlen else ""
        return f"d{self.head_dim:<3} {self.mask:<6} {self.seqlen:>5}{keys} x {self.batch}{grouped}"

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def square(head_dim: int, causal: bool, seqlen: int, dtype: str = "bf16") -> Cell:
    """A cell of the paper's grid."""
    heads = HIDDEN // head_dim
    return Cell(head_dim, causal, seqlen, max(1, TOKENS // seqlen), heads, heads, seqlen, dtype)


def grid(seqlens: tuple[int, ...], dims: tuple[int, ...] = (64, 128, 256), dtype: str = "bf16") -> list[Cell]:
    """The paper's grid at these lengths."""
    return [square(d, causal, s, dtype) for d in dims for causal in (False, True) for s in seqlens]


def grouped(seqlens: tuple[int, ...]) -> list[Cell]:
    """32 query heads over 8 key heads, as in Llama-3-8B and its like."""
    return [Cell(128, causal, s, max(1, TOKENS // s), 32, 8, s) for causal in (False, True) for s in seqlens]


def small(shapes: tuple[tuple[int, int, int], ...]) -> list[Cell]:
    """One batch of (head_dim, seqlen, heads): so little work that the launch is what is measured."""
    return [Cell(d, True, s, 1, heads, heads, s) for d, s, heads in shapes]


def few(shapes: tuple[tuple[int, bool, int, int, int], ...]) -> list[Cell]:
    """One batch of (head_dim, causal, seqlen, heads, keys): fewer query tiles than SMs, and keys enough to share out."""
    return [Cell(d, causal, s, 1, heads, heads, keys) for d, causal, s, heads, keys in shapes]


def decode(batches: tuple[int, ...], caches: tuple[int, ...]) -> list[Cell]:
    """One query row, 32 heads over 8, a cache of so many keys."""
    return [Cell(128, True, 1, b, 32, 8, n) for b in batches for n in caches]


#: Every seqlen of the paper.
FULL = (512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Plan:
    """The cells of a run, and how long it may take."""

    forward: list[Cell]
    sustained: list[Cell]
    grouped: list[Cell]
    small: list[Cell]
    decode: list[Cell]
    accuracy_dims: tuple[int, ...]
    fp8: list[Cell]
    fp8_road: list[Cell]
    rounding: list[Cell]
    fp8_keys: tuple[int, ...]
    seconds: float


QUICK = Plan(
    forward=grid((512, 2048, 8192)),
    sustained=[square(128, False, 8192), square(128, True, 8192)],
    grouped=grouped((8192,)),
    small=small(((128, 128, 8), (64, 512, 16))) + few(((128, False, 512, 8, 8192),)),
    decode=decode((1, 64), (8192,)),
    accuracy_dims=(128,),
    fp8=grid((512, 2048, 8192)),
    fp8_road=grid((8192,)),
    rounding=[square(d, False, 8192) for d in (64, 128, 256)],
    fp8_keys=(1024, 4096),
    seconds=165,
)

WHOLE = Plan(
    forward=grid(FULL),
    sustained=[square(d, causal, 16384) for d in (64, 128, 256) for causal in (False, True)]
    + [square(128, causal, 2048) for causal in (False, True)],
    grouped=grouped((2048, 8192)),
    small=small(((64, 128, 8), (128, 128, 8), (128, 512, 8), (128, 512, 32), (256, 512, 8)))
    + few(
        (
            (128, False, 512, 8, 8192),
            (128, False, 128, 16, 16384),
            (128, True, 2048, 4, 2048),
            (64, False, 512, 8, 8192),
            (256, False, 512, 8, 8192),
        )
    ),
    decode=decode((1, 8, 64), (1024, 8192, 65536)),
    accuracy_dims=(64, 128, 256),
    fp8=grid(FULL),
    fp8_road=grid((4096, 8192, 16384)),
    rounding=[square(d, False, s) for d in (64, 128, 256) for s in (4096, 8192, 16384)],
    fp8_keys=(1024, 2048, 4096, 6144, 8192, 16384),
    seconds=520,
)
