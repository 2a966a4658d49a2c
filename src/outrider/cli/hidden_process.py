"""Hide the memory and the environment of this process from other processes of the same user (Linux).

The environment of the program holds keys. A command that a model runs is another process of the same user, and could
read them from /proc/<pid>/environ or with a debugger. Only root may read those of a process that is not dumpable.
"""

from __future__ import annotations

import sys

from outrider.environment import debug_file

_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Make this process not dumpable. While OUTRIDER_DEBUG is set it stays visible, so that a debugger can attach."""
    if sys.platform != "linux" or debug_file() is not None:
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
