"""Run every measurement, or those named: `python -m bench imports turns sessions`."""

from __future__ import annotations

import platform
import sys
from importlib import import_module

MEASUREMENTS = (
    *("imports", "startup", "turns", "sessions", "providers", "log", "long_sessions"),
    *("shell", "subagents", "updates", "acp"),
)


def main() -> int:
    names = sys.argv[1:] or MEASUREMENTS
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"bench: there is no measurement {unknown[0]!r}; there are: {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    missed = 0
    for name in names:
        for figure in import_module(f"bench.{name}").measure():
            print(figure)
            missed += not figure.holds
    print("All targets hold." if not missed else f"{missed} missed.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
