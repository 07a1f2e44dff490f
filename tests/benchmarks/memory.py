"""How much memory this program holds, in bytes.

The numbers are those of `/proc/self/status`, which are of this program alone: what `getrusage` tells includes the
process that started it, from before it became this one. It is asked only where there is no `/proc`.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

_SELF = Path("/proc/self")


def peak() -> int:
    """The most that was held, since `trim` where there is `/proc`."""
    return _status("VmHWM") or _maxrss()


def resident() -> int:
    """What is held now; without `/proc` the most that was."""
    return _status("VmRSS") or _maxrss()


def trim() -> None:
    """Give unused memory back to the system, and forget the highest mark so far, where this can be done."""
    gc.collect()
    if (_SELF / "clear_refs").exists():
        ctypes.CDLL(None).malloc_trim(0)
        (_SELF / "clear_refs").write_text("5")


def _status(field: str) -> int | None:
    try:
        lines = (_SELF / "status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def _maxrss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
