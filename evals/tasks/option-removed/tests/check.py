"""answer.txt names version 2.4.0.

Wrong: 3.0.0, which a note of 2.3.0 announces and which mentions the option (wrong-1); 2.3.0, the version that
deprecated it (wrong-2).
"""

from pathlib import Path

answer = Path("answer.txt").read_text(encoding="utf-8").strip().strip("`'\"*.").lower()
assert answer.removeprefix("version").strip().removeprefix("v") == "2.4.0", answer
