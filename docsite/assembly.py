"""Put all pages of the site into one folder: those of docs/, the project's own, the examples, and generated ones."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

from docsite.api_reference import api_pages, with_reference_links
from docsite.command_line import command_line_page
from docsite.event_reference import events_page
from docsite.files import files_page

PROJECT_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "bench/README.md": "project/measuring.md",
    "bench/RESULTS.md": "project/benchmarks.md",
    "docs/stories/README.md": "stories/index.md",
}
"""Pages whose place in the site is not their place in docs/."""
LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".sql": "sql"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")


def assemble(root: Path, pages: Path) -> None:
    """Write every page of the site into the folder `pages`, with links that lead to other pages of it."""
    write_files(root, pages)
    shutil.copyfile(Path(__file__).with_name("site.css"), pages / "site.css")
    generated = {**api_pages((root / "docs" / "api.md").read_text(encoding="utf-8"))}
    generated |= {"reference/command-line.md": command_line_page(), "reference/events.md": events_page()}
    generated |= {"reference/files.md": files_page()}
    for place, text in generated.items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(text, encoding="utf-8")


def write_files(root: Path, pages: Path) -> None:
    """Write the pages that are files of the project, and the files that they show."""
    places = _places(root)
    for source, place in places.items():
        target = pages / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = _for_the_site(source, places)
            text = with_reference_links(text) if place == "api.md" else text
            target.write_text(text, encoding="utf-8")
        elif target.suffix == ".md":
            target.write_text(_example_page(source), encoding="utf-8")
        else:
            shutil.copyfile(source, target)


def _places(root: Path) -> dict[Path, str]:
    """Return the place of each file in the site."""
    places = {path: path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*") if path.is_file()}
    places |= {root / name: place for name, place in PROJECT_PAGES.items()}
    places |= {path: f"project/results/{path.name}" for path in (root / "bench" / "results").glob("*.svg")}
    for path in (root / "examples").rglob("*"):
        if path.suffix in (*LANGUAGES, ".ipynb"):
            places[path] = f"examples/{path.stem}.md"
    return places


def _for_the_site(source: Path, places: dict[Path, str]) -> str:
    """Return the page with links to other pages of the site. Files that are not in it are named without a link."""

    def link(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return found[0]
        led_to = (source.parent / path).resolve()
        if not led_to.exists():
            return found[0]  # the build fails, and names the page
        if led_to not in places:
            return words
        here = PurePosixPath(places[source]).parent
        return f"{mark}[{words}]({os.path.relpath(places[led_to], here)}{hash_sign}{anchor})"

    lines, closing = [], ""
    for line in source.read_text(encoding="utf-8").split("\n"):
        fence = FENCE.match(line)
        if closing:
            closing = "" if line.strip() == closing else closing
        elif fence:
            closing = fence[2]
            line = (
                f"{fence[1]}{fence[2]}{fence[3].partition(' ')[0]}"  # `python notest`: the second word is for the tests
            )
        else:
            line = LINK.sub(link, line)
        lines.append(line)
    return "\n".join(lines)


def _example_page(source: Path) -> str:
    """Return a page that shows a program, a settings file or a notebook."""
    if source.suffix != ".ipynb":
        return f"# {source.name}\n\n{_fenced(source.read_text(encoding='utf-8'), LANGUAGES[source.suffix])}"
    cells = json.loads(source.read_text(encoding="utf-8"))["cells"]
    shown = (
        "".join(cell["source"]) if cell["cell_type"] == "markdown" else _fenced("".join(cell["source"]), "python")
        for cell in cells
    )
    return f"# {source.name}\n\n" + "\n\n".join(re.sub(r"^# ", "## ", each, flags=re.M) for each in shown)


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````\n"
