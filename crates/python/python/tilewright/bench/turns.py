"""In which order measured calls take turns."""

from __future__ import annotations


def turns(count: int) -> list[list[int]]:
    """Rounds of `count` calls in which each comes directly behind every other one equally often.

    At the power limit a call is slower behind a hungry one and faster behind one that leaves the chip cool, so a
    comparison is fair only if all have had the same before them. An even count takes as many rounds, an odd one twice
    as many (E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949).
    """
    first = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    rounds = [[(call + shift) % count for call in first] for shift in range(count)]
    return rounds if count % 2 == 0 else rounds + [order[::-1] for order in rounds]
