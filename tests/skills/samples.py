"""Skills for tests, and mutations of them."""

from __future__ import annotations

import random
from pathlib import Path

HEADERS = (
    "\nname: my-skill\ndescription: A test skill\nlicense: MIT\nmetadata:\n  author: Test Author\n  version: 1.0\n",
    "\nname: my-skill\ndescription: >\n  Extract text from PDFs.\n  Use when: never\n\n  More.\n"
    'allowed-tools: Bash(git:*) Read\ncompatibility: "Needs git, and \\"docker\\""\n',
    "\nname: 'my-skill'\ndescription: |-\n  Line one\n    indented\n  Line two\n"
    "metadata:\n  nested:\n    - one\n    - two: x\n      three: y\n",
    '\nname: my-skill\ndescription: This goes\n  over two lines # comment\nlicense: "multi\n  line"\n',
)
_TOKENS = (
    *("&a ", "*a", "!tag ", "[a, b]", "{a: b}", "- ", "  ", "\t", ": x", " #", "# c", "\n", "\n\n", "'", '"', "|", ">"),
    *("%", "@", "`", "é", "日本", "\x1b[31m", "-", "--", "?", ",", "\\", "...", "name: x\n", "  b: c\n", "~", "]", "X"),
    *("name:", "description:", "x" * 70, "y " * 600, "---", "_", "/", ".."),
)


def write_skill(folder: Path, name: str, description: str = "A test skill", body: str = "Do it.") -> Path:
    """Write a sound skill below a folder of skills, and return its own folder."""
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return folder / name


def mutated(count: int, seed: int = 24) -> list[str]:
    """Return texts of SKILL.md files: sound ones with characters and lines added, removed, moved and doubled."""
    draw = random.Random(seed)
    return [f"---{_mutated(draw.choice(HEADERS), draw)}---\nThe body.\n" for _ in range(count)]


def _mutated(text: str, draw: random.Random) -> str:
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        at, lines = draw.randrange(len(text)), text.split("\n")
        line = draw.randrange(len(lines))
        match draw.choice("aaabcd"):
            case "a":
                text = text[:at] + draw.choice(_TOKENS) + text[at:]
            case "b":
                text = text[:at] + text[at + draw.randrange(1, 6) :]
            case "c":
                lines[line] = " " * draw.randrange(4) + lines[line].strip()
                text = "\n".join(lines)
            case "d":
                lines.insert(line, draw.choice(lines))
                text = "\n".join(lines)
    return text


def many_skills(folder: Path, count: int = 500) -> list[Path]:
    """Write many skills with long descriptions; number 321 alone is about invoices."""
    invoices = "Check an invoice against its order, and say what does not match"
    return [
        write_skill(folder, f"skill-{number:03}", invoices if number == 321 else f"Handle topic number {number} " * 5)
        for number in range(count)
    ]
