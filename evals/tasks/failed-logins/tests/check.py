"""answer.txt has deploy (16 attempts), test (13) and backup (11), in this order.

Wrong: lines are counted, though "message repeated 7 times" stands for seven attempts (wrong-1); users that do not exist
are left out (wrong-2).
"""

from pathlib import Path

lines = [line.strip("`'\"*- \t") for line in Path("answer.txt").read_text(encoding="utf-8").splitlines()]
assert [line for line in lines if line] == ["deploy", "test", "backup"], lines
