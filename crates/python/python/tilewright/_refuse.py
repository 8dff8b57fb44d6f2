"""Refusing what is not supported, by its name and before anything is launched: nothing is accepted and ignored."""

from typing import Any

from .errors import NotSupported

#: What a window of any width is called.
UNLIMITED = (None, -1, (-1, -1), [-1, -1], (None, None))


def refuse(function: str, argument: str, value: Any, advice: str) -> NotSupported:
    """The exception for one argument."""
    kind = type(value)
    shown = f"a {kind.__name__}" if hasattr(value, "shape") or len(repr(value)) > 40 else repr(value)
    return NotSupported(f"{function}: argument {argument} = {shown} is not supported: {advice}")


def check_score(function: str, window: Any, softcap: float | None, window_name: str = "window") -> None:
    """Refuses a window and a soft cap, which no kernel here has."""
    if window is not None and not any(window == same for same in UNLIMITED):
        raise refuse(function, window_name, window, "every key is in the window; leave it out")
    if softcap:
        raise refuse(function, "softcap", softcap, "scores are not capped; leave it out")
