"""Models of the transformers library: `attn_implementation="tilewright"`."""

from __future__ import annotations

import warnings
from typing import Any

from ._call import attention
from ._refuse import refuse

#: The name that models ask for.
NAME = "tilewright"

#: Arguments that some models pass and that no kernel here computes; torch's own attention would leave them out in silence.
NEVER = {
    "softcap": "scores are not capped",
    "s_aux": "there are no attention sinks",
    "head_mask": "heads are not masked",
}

#: Reasons for going to torch that a user was told of.
_told: set[str] = set()


def register_with_transformers(fallback: bool = True) -> None:
    """Registers `attn_implementation="tilewright"` with transformers 5, for any model that asks its attention by name.

    Computed here: no mask, or a causal one without padding, over a whole sequence (prefill, training's forward) or for a
    single new token (decoding), with grouped heads or not.

    Everything else that a model may ask for (padding in a batch, sliding windows that hide something, a chunk of several
    tokens that continues a sequence, packed sequences, static caches while decoding, dropout, position biases) goes to
    transformers' own `sdpa`, with one warning for each reason; with `fallback=False` it is refused by name. Score capping
    and attention sinks are always refused: `sdpa` would leave them out in silence.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def forward(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any) -> tuple[Any, None]:
        """Attention of query `[B, Hq, L, D]`, key and value `[B, Hk, S, D]`. Gives `[B, L, Hq, D]` and no weights."""
        for name, why in NEVER.items():
            if kwargs.get(name) is not None:
                raise refuse(NAME, name, kwargs[name], f"{why}; load the model with attn_implementation='eager'")
        reason = _beyond(attention_mask, kwargs)
        if reason is not None:
            name, advice = reason
            if not fallback:
                value_given = attention_mask if name == "attention_mask" else kwargs[name]
                raise refuse(NAME, name, value_given, advice)
            _tell(f"tilewright leaves this attention to transformers' sdpa, for its argument {name}: {advice}")
            return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return _forward(module, query, key, value, **kwargs), None

    AttentionInterface.register(NAME, forward)
    # None for a plain causal mask, the whole mask for anything else: what `forward` tells them apart by.
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _forward(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> Any:
    """Without a mask, as transformers means it: causal from the first key on, unless there is one query."""
    length, keys = query.shape[2], key.shape[2]
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    causal = bool(causal) and length > 1
    if causal and keys > length:
        # A static cache, longer than what is in it: the keys of this sequence are its first ones.
        key, value = key[:, :, :length], value[:, :, :length]
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    return attention(q, k, v, causal=causal, scale=scaling)


def _beyond(attention_mask: Any, kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """The first argument that no kernel here computes, and what to say of it."""
    if attention_mask is not None:
        return "attention_mask", "masks are causal or none, without padding"
    if kwargs.get("dropout"):
        return "dropout", "there is no dropout"
    if kwargs.get("position_bias") is not None:
        return "position_bias", "there are no position biases"
    return None


def _tell(message: str) -> None:
    """Warns once a message."""
    if message not in _told:
        _told.add(message)
        warnings.warn(message, stacklevel=3)
