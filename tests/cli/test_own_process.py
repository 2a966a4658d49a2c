"""The garbage collector of the program begins late, and then works as usual."""

from __future__ import annotations

import subprocess
import sys

COLLECT = """
import gc
usual = gc.get_threshold()
from outrider.cli import FIRST_COLLECTION, delay_first_collection

delay_first_collection()
before = gc.get_stats()[0]["collections"]
kept = [[] for _ in range(FIRST_COLLECTION // 2)]
print(gc.get_stats()[0]["collections"] - before)
kept += [[] for _ in range(FIRST_COLLECTION)]
print(gc.get_threshold() == usual, gc.callbacks, gc.get_stats()[0]["collections"] > before + 1)
"""


def test_the_first_collection_is_late_and_the_next_are_as_usual() -> None:
    ended = subprocess.run([sys.executable, "-c", COLLECT], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["0", "True [] True"]
