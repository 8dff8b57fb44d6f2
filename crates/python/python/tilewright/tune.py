"""`python -m tilewright.tune`: finds the fastest schedules for classes of problems on this machine's GPU.

`--help` shows the options. What it writes is what `tilewright.use_tuning` takes.
"""

from __future__ import annotations

import sys

from . import _native


def main(words: list[str] | None = None) -> int:
    """Does what the words of a command line ask, those of this process unless given. Returns 0 when it is done, 1 for wrong
    words or an error that was told, 2 where there is no GPU.
    """
    return _native.tune(sys.argv[1:] if words is None else words)


if __name__ == "__main__":
    sys.exit(main())
