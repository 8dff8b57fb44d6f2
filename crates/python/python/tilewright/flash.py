"""`flash_attn_func`: FlashAttention's signature, for code that is written against it."""

from __future__ import annotations

from typing import Any

from ._call import attention
from ._refuse import check_score, refuse

#: Keywords of FlashAttention-3 with the values that change nothing here.
FLASH_3 = {
    "qv": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "attention_chunk": 0,
    "num_splits": (0, 1),
    "pack_gqa": None,
    "sm_margin": 0,
}


def _contiguous_rows(tensor: Any) -> Any:
    """The tensor, copied where its last dimension is not contiguous, as FlashAttention does."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **flash_3: Any,
) -> Any:
    """FlashAttention's function of this name: q `[B, Sq, Hq, D]`, k `[B, Sk, Hk, D]`, v `[B, Sk, Hk, Dv]`, causal at the
    bottom right. Gives `[B, Sq, Hq, Dv]`; with `return_attn_probs` the triple (out, LSE float32 `[B, Hq, Sq]`, None), as
    FlashAttention-2 does without dropout.

    `deterministic` changes nothing: results are the same from run to run anyway. Keywords of FlashAttention-3 are taken at
    their defaults. Whatever is not supported is refused by its name.
    """
    if dropout_p:
        raise refuse("flash_attn_func", "dropout_p", dropout_p, "there is no dropout; pass 0.0")
    check_score("flash_attn_func", window_size, softcap, "window_size")
    if alibi_slopes is not None:
        raise refuse("flash_attn_func", "alibi_slopes", alibi_slopes, "there are no position biases; leave it out")
    for name, value in flash_3.items():
        if name not in FLASH_3:
            raise TypeError(f"flash_attn_func() got an unexpected keyword argument {name!r}")
        default = FLASH_3[name]
        if value is not default and value not in (default if isinstance(default, tuple) else (default,)):
            raise refuse("flash_attn_func", name, value, "leave it out")
    q, k, v = map(_contiguous_rows, (q, k, v))
    out, lse = attention(q, k, v, causal=causal, scale=softmax_scale, return_lse=True)
    return (out, lse, None) if return_attn_probs else out
