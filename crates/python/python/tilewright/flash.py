"""`flash_attn_func`: FlashAttention's signature, for code that is written against it."""

from __future__ import annotations

from typing import Any

from . import _fp8
from ._call import attention
from ._refuse import check_score, refuse
from .fp8 import attention_quantized

#: Keywords of FlashAttention-3 with the values that change nothing here.
FLASH_3 = {
    "qv": None,
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
    *,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    **flash_3: Any,
) -> Any:
    """FlashAttention's function of this name: q `[B, Sq, Hq, D]`, k `[B, Sk, Hk, D]`, v `[B, Sk, Hk, Dv]`, causal at the
    bottom right. Gives `[B, Sq, Hq, Dv]`; with `return_attn_probs` the triple (out, LSE float32 `[B, Hq, Sq]`, None), as
    FlashAttention-2 does without dropout.

    K and V may be float8_e4m3fn or float8_e5m2, with q of the same type, or of 16 bits over float8_e4m3fn. Then
    `q_descale`, `k_descale` and `v_descale` are float32 `[B, Hk]` as in FlashAttention-3, 1 where left out; of a 16-bit q
    there is none. Gives bfloat16, or the type of a 16-bit q.

    `deterministic` changes nothing: results are the same from run to run anyway. Other keywords of FlashAttention-3 are
    taken at their defaults. Whatever is not supported is refused by its name.
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
    descales = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    if any(_fp8.name(x).startswith("float8") for x in (k, v)):
        scales = {name.replace("descale", "scale"): value for name, value in descales.items()}
        out, lse = attention_quantized(q, k, v, **scales, causal=causal, scale=softmax_scale, return_lse=True)
    else:
        for name, value in descales.items():
            if value is not None:
                raise refuse("flash_attn_func", name, value, "tensors of 16 bits have no scales; leave it out")
        out, lse = attention(q, k, v, causal=causal, scale=softmax_scale, return_lse=True)
    return (out, lse, None) if return_attn_probs else out
