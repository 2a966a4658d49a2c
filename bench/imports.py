"""What `import outrider` costs, over bare Python and beside what it stands on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.figure import Figure

BARE = "pass"
BASE = "import asyncio, msgspec"
CANDIDATES = {
    "import outrider": "import outrider",
    "from outrider import every public name": "from outrider import *",
}
UNWANTED = ("pydantic", "click", "rich", "aiohttp", "httptools", "httpx", "requests", "jsonschema_rs", "platformdirs")
ROUNDS = 9

_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure() -> Iterator[Figure]:
    """Minima of several processes each, started in turn, all with compiled bytecode as an installed package has it."""
    for code in CANDIDATES.values():
        _seconds(code)
    best = dict.fromkeys([BARE, BASE, *CANDIDATES.values()], float("inf"))
    for _ in range(ROUNDS):
        for code in best:
            best[code] = min(best[code], _seconds(code))
    base = best[BASE] - best[BARE]
    for name, code in CANDIDATES.items():
        cost = best[code] - best[BARE]
        yield Figure(f"{name} / import asyncio, msgspec", cost / base, "x", 1.25, f"{cost * 1e3:.0f} ms")
    yield Figure("heavy modules that these imports load", float(len(_unwanted())), "", 0, ", ".join(_unwanted()))


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=_ENVIRONMENT)
    return time.perf_counter() - started


def _unwanted() -> list[str]:
    code = "import sys\nfrom outrider import *\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    return [name for name in UNWANTED if name in loaded]
