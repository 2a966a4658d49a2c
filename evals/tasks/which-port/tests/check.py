"""answer.txt has 8160: the port 8140 of the profile, and two steps of 10 for the third instance.

Wrong: the port of the profile's file (wrong-1); the port that is commented out in service.env (wrong-2).
"""

from pathlib import Path

answer = Path("answer.txt").read_text(encoding="utf-8").strip().strip("`'\"*.")
assert answer == "8160", answer
