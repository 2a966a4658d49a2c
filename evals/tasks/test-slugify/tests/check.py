"""test_slug.py passes with slug.py, and fails with each of four versions that break a rule.

Wrong: tests of one example that pass with versions that break a rule (wrong-1); tests that fail always (wrong-2).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

RIGHT = """
import re

def slugify(title):
    kept = re.sub(r"[^a-z0-9 -]", "", title.lower())
    return re.sub(r" +", "-", kept).strip("-")
"""
BROKEN = {
    "capitals stay": RIGHT.replace("[^a-z0-9 -]", "[^A-Za-z0-9 -]").replace("title.lower()", "title"),
    "each space is a hyphen": RIGHT.replace('" +"', '" "'),
    "other characters stay": RIGHT.replace("[^a-z0-9 -]", "(?!)"),
    "hyphens stay at the ends": RIGHT.replace('.strip("-")', ""),
}
CODE = "import sys, unittest; sys.path.insert(0, '.'); unittest.main('test_slug', argv=['test'])"


def outcome(slug: str) -> tuple[int, str]:
    """Run the tests with this text of slug.py. Return the exit code, and the line about the number of tests."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slug.py").write_text(slug)
        Path(folder, "test_slug.py").write_bytes(Path("test_slug.py").read_bytes())
        command = [sys.executable, "-I", "-S", "-B", "-c", CODE]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10)
    return ended.returncode, next((line for line in ended.stderr.splitlines() if line.startswith("Ran ")), "")


code, ran = outcome(RIGHT)
assert code == 0, "the tests fail with the function as it is"
assert ran, "no test ran"
assert not ran.startswith("Ran 0 "), "no test ran"
for rule, slug in BROKEN.items():
    code, ran = outcome(slug)
    assert code == 1, rule
    assert ran, rule
