"""Run every measurement, or those named: `python -m bench imports turns sessions`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module

from bench.figure import Figure

MEASUREMENTS = (
    *("imports", "startup", "turns", "sessions", "providers", "log", "postgres", "long_sessions", "context"),
    *("large_results", "shell", "sandbox", "snapshots", "subagents", "updates", "acp", "mcp", "batch"),
    *("telemetry", "web", "serve"),
)


def main() -> int:
    names = sys.argv[1:] or MEASUREMENTS
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"bench: there is no measurement {unknown[0]!r}; there are: {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    missed = sum(not figure.holds for figure in figures(names))
    print("All targets hold." if not missed else f"{missed} missed.")
    return 1 if missed else 0


def figures(names: Iterable[str] = MEASUREMENTS) -> Iterator[Figure]:
    """The figures of these measurements, printed as they come."""
    for name in names:
        for figure in import_module(f"bench.{name}").measure():
            print(figure, flush=True)
            yield figure


if __name__ == "__main__":
    sys.exit(main())
