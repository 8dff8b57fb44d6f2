"""`sdpa`: the signature, layout and conventions of `torch.nn.functional.scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Any

from ._call import attention
from ._refuse import refuse
from .errors import InvalidArgument


def sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Torch's function: query `[B, Hq, L, D]`, key `[B, Hk, S, D]`, value `[B, Hk, S, Dv]`, all over any strides with a
    contiguous last dimension. Gives `[B, Hq, L, Dv]`, stored as `[B, L, Hq, Dv]`.

    Torch aligns `is_causal` at the top left, which for L = S is what happens here. For L != S it is refused: a decoder
    that continues a sequence wants the bottom right, which is `tilewright.attention(..., causal=True)`.
    """
    if attn_mask is not None:
        raise refuse("sdpa", "attn_mask", attn_mask, "masks are causal or none; pass is_causal, or use torch's own")
    if dropout_p:
        raise refuse("sdpa", "dropout_p", dropout_p, "there is no dropout; pass 0.0")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) != 4:
            raise InvalidArgument(f"sdpa: {name} has {len(tensor.shape)} dimensions, expected 4: [B, H, S, D]")
    length, keys = query.shape[2], key.shape[2]
    if is_causal and length != keys:
        advice = (
            f"torch aligns it at the top left, and the lengths are {length} and {keys}. For the bottom right, call "
            "tilewright.attention(q, k, v, causal=True) in [B, S, H, D]"
        )
        raise refuse("sdpa", "is_causal", is_causal, advice)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise InvalidArgument(
            f"sdpa: {query.shape[1]} query heads and {key.shape[1]} key heads differ; pass enable_gqa=True to share keys"
        )
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    return attention(q, k, v, causal=is_causal, scale=scale).transpose(1, 2)
