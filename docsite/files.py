"""The list of all files of the package, each with the first sentence of its docstring.

.venv/bin/python -m docsite.files            # all
.venv/bin/python -m docsite.files log web    # two rooms
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "outrider"
HEAD = """# Every file

From the docstrings. [Architecture](../architecture.md#the-rooms) says where to begin. Paths are relative to
`src/outrider/`.

"""


def files(rooms: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each file in these rooms, or in all, with the first sentence of its docstring."""
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.parent, path.name)):
        place = path.relative_to(PACKAGE)
        if not rooms or place.parts[0].removesuffix(".py") in rooms:
            paragraph = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
            yield place.as_posix(), re.split(r"(?<=\.) (?=[A-Z`])", " ".join(paragraph.split()))[0]


def files_page() -> str:
    """Return a page with the files, a heading for each room."""
    lines, room = [HEAD], ""
    for place, sentence in files([]):
        first, slash, _ = place.partition("/")
        if slash and first != room:
            room = first
            lines.append(f"\n## {room}\n\n")
        lines.append(f"- `{place}`: {sentence}\n")
    return "".join(lines)


if __name__ == "__main__":
    for place, sentence in files(sys.argv[1:]):
        print(f"{place}: {sentence}")
