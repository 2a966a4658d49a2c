"""Modules that are imported in a thread, at the end of the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SLOW = "import time; time.sleep(0.3); print('the slow one')"
PROGRAM = "from outrider.preloading import preload; preload(['slow', 'later'])"


def test_a_program_that_ends_waits_for_the_import_that_goes_on_and_begins_no_other(tmp_path: Path) -> None:
    """Python crashes if it ends in the middle of an import, now and then."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "later.py").write_text("print('the later one')")
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("the slow one\n", "")
