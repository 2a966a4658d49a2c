"""The checks of the documentation site find what they are for, and its pages link to each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from docsite.api_reference import api_pages, with_reference_links
from docsite.assembly import assemble, write_files
from docsite.command_line import _commands_below
from docsite.docstrings import with_examples
from docsite.links import problems
from docsite.navigation import missing_pages, with_pages

ROOT = Path(__file__).parents[2]
API = """# The API

## Scripts

| name | what it is |
| --- | --- |
| `think`, `run` | Ask. |
| `__version__` | The version. |

## Words

No table.
"""


def write_pages(folder: Path, *names: str) -> None:
    """Write pages of these names."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("# A page\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose links are all good."""
    (tmp_path / "below").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="top">Home</h1><a href="below/a.html#here">a</a><a href="#top">up</a>')
    (tmp_path / "below" / "a.html").write_text('<h2 id="here">A</h2><a href="../index.html">b</a><a href="..">c</a>')
    return tmp_path


def test_good_links_have_no_problem(site: Path) -> None:
    assert problems(site) == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("gone.html", "gone.html does not exist"),
        ("../gone.html", "../gone.html leads out of the site"),
        ("/index.html", "/index.html leads out of the site"),
        ("below/a.html#there", "below/a.html#there has no anchor there"),
        ("#nowhere", "#nowhere has no anchor nowhere"),
        ("https://", "https:// is not an address"),
        ("htps://example.org", "htps://example.org is not an address"),
        ("mailto:me", "mailto:me is not an address"),
    ],
)
def test_a_bad_link_is_found(site: Path, link: str, problem: str) -> None:
    (site / "index.html").write_text(f'<a href="{link}">x</a>')
    assert problems(site) == [f"index.html: {problem}"]


def test_a_picture_that_is_missing_is_found(site: Path) -> None:
    (site / "index.html").write_text('<img src="gone.png"><a href="https://example.org/a?b#c">fine</a>')
    assert problems(site) == ["index.html: gone.png does not exist"]


def test_pages_and_navigation_must_agree(tmp_path: Path) -> None:
    config = '[project]\nnav = [{"Home" = "index.md"}, {"More" = [{"A" = "a/b.md"}, "gone.md"]}]\n'
    write_pages(tmp_path, "index.md", "a/b.md", "new.md")
    assert missing_pages(config, tmp_path) == ["gone.md", "new.md"]


def test_a_folder_in_the_navigation_is_all_of_its_pages(tmp_path: Path) -> None:
    write_pages(tmp_path, "a/10-x.md", "a/2-y.md", "a/index.md", "b/3.md")
    assert with_pages('nav = ["a/*", "b/3.md"]', tmp_path) == 'nav = ["a/index.md", "a/2-y.md", "a/10-x.md", "b/3.md"]'


def test_public_names_get_pages_and_links() -> None:
    assert set(api_pages(API)) == {"reference/api-scripts.md"}
    assert "::: outrider.think\n\n::: outrider.run\n" in api_pages(API)["reference/api-scripts.md"]
    assert "[`run`](reference/api-scripts.md#outrider.run) | Ask." in with_reference_links(API)
    assert "| `__version__` |" in with_reference_links(API)


def test_the_commands_below_a_command_are_read_from_its_help() -> None:
    text = "usage\n\ncommands:\n  COMMAND\n    list       list them\n    gc-all     delete\n               all\n\nend\n"
    assert _commands_below(text) == ["list", "gc-all"]


def test_links_of_a_page_lead_to_its_neighbours_in_the_site(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    assemble(ROOT, pages)
    assert "](../stories/index.md)" not in (pages / "index.md").read_text()
    assert "](stories/index.md)" in (pages / "index.md").read_text()
    assert "](project/benchmarks.md)" in (pages / "index.md").read_text()
    assert "tests/stories" in (pages / "stories" / "index.md").read_text()
    assert "../../tests" not in (pages / "stories" / "index.md").read_text()
    assert "notest" not in (pages / "scale.md").read_text()
    config = with_pages((ROOT / "docsite" / "zensical.toml").read_text(), pages)
    assert missing_pages(config, pages) == []
    assert "outrider sessions rewind" in (pages / "reference" / "command-line.md").read_text()


def test_examples_in_docstrings_become_blocks_of_code() -> None:
    plain = "Add.\n\n>>> one = 1\n>>> one + 1\n2\n\nMore."
    assert with_examples(plain) == "Add.\n\n```pycon\n>>> one = 1\n>>> one + 1\n2\n```\n\nMore."
    assert with_examples("A >>> in a line.") == "A >>> in a line."


def test_only_a_link_to_what_is_not_in_the_site_is_taken_away(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("docs", "src", "docs/stories", "bench"):
        (root / name).mkdir(parents=True)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md", "bench/RESULTS.md", "docs/stories/README.md"):
        (root / name).write_text("# A page\n")
    (root / "src" / "code.py").write_text("")
    (root / "docs" / "api.md").write_text(
        "[a](../src/code.py) [b](gone.md) [c](../CHANGELOG.md#x) [d](https://e.org)\n"
    )
    write_files(root, tmp_path / "pages")
    text = (tmp_path / "pages" / "api.md").read_text()
    assert text == "a [b](gone.md) [c](project/changelog.md#x) [d](https://e.org)\n"
