"""README.md links to installing.md, and its other links are as they were.

Wrong: an empty page is made where the link points (wrong-1); the page about updates, which says "Install", is linked
(wrong-2).
"""

import re
from pathlib import Path

text = Path("README.md").read_text(encoding="utf-8")
links = [(words, target.removeprefix("./")) for words, target in re.findall(r"\[([^]]+)\]\(\s*([^)\s]+)\s*\)", text)]
assert links == [
    ("Installation", "docs/installing.md"),
    ("First steps", "docs/first-steps.md"),
    ("Settings", "docs/settings.md"),
    ("Updates", "docs/updating.md"),
    ("Questions", "docs/questions.md"),
], links
assert "# Installing Tidewatch" in Path("docs/installing.md").read_text(encoding="utf-8")
assert not Path("docs/instalation.md").exists()
