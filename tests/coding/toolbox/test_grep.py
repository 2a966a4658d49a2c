"""`Grep`: what stands in files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.coding.toolbox.search.grep import MOST_FILES, MOST_LINES, grep
from outrider.coding.toolbox.workspace import Workspace
from tests.coding.toolbox.calling import call, put


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    put(folder / "a.py", "import os\nprint('hello')\n")
    put(folder / "src/b.py", "def hello():\n    pass\n\nhello()\n")
    put(folder / "src/web/c.ts", "const hello = 1;\n")
    put(folder / "notes.md", "Hello (world)\n")
    return folder


async def said(folder: Path, pattern: str, **arguments: str) -> str:
    result = await call(grep(Workspace(folder)), pattern=pattern, **arguments)
    assert not result.is_error, result.text
    return result.text


async def test_files_come_newest_first(folder: Path) -> None:
    for age, name in enumerate(("src/b.py", "a.py", "src/web/c.ts")):
        os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))
    assert await said(folder, "hello") == "src/b.py\na.py\nsrc/web/c.ts"


async def test_content_shows_lines_with_their_numbers_in_the_order_of_paths(folder: Path) -> None:
    assert await said(folder, "hello", output_mode="content") == (
        "a.py:2:print('hello')\nsrc/b.py:1:def hello():\nsrc/b.py:4:hello()\nsrc/web/c.ts:1:const hello = 1;"
    )


async def test_count_counts_lines(folder: Path) -> None:
    assert await said(folder, "hello", output_mode="count") == (
        "a.py:1\nsrc/b.py:2\nsrc/web/c.ts:1\n[4 lines in 3 files]"
    )


async def test_case_can_be_ignored(folder: Path) -> None:
    assert await said(folder, "(?i)hello", path="notes.md", output_mode="content") == "notes.md:1:Hello (world)"


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", {"a.py", "src/b.py"}),
        ("*.{py,ts}", {"a.py", "src/b.py", "src/web/c.ts"}),
        ("src/**", {"src/b.py", "src/web/c.ts"}),
        ("src/*", {"src/b.py"}),
        ("./src/**/*.ts", {"src/web/c.ts"}),
        ("**/*.ts", {"src/web/c.ts"}),
        ("src/", {"src/b.py", "src/web/c.ts"}),
        ("{src/b,a}.py", {"a.py", "src/b.py"}),
        ("!*.py", {"src/web/c.ts"}),
        ("!src/**", {"a.py"}),
    ],
)
async def test_a_glob_says_which_files(folder: Path, glob: str, files: set[str]) -> None:
    assert set((await said(folder, "hello", glob=glob)).split("\n")) == files


async def test_a_glob_may_be_relative_to_the_path_or_to_the_project(folder: Path) -> None:
    assert await said(folder, "hello", path="src", glob="web/*.ts") == "src/web/c.ts"
    assert await said(folder, "hello", path="src", glob="src/web/*.ts") == "src/web/c.ts"


@pytest.mark.parametrize("glob", ["*", "**", "**/*", "src/**", "*.js", "src/**/*.js", None])
async def test_no_glob_brings_back_what_git_ignores(folder: Path, glob: str | None) -> None:
    put(folder / ".git/config", "needle")
    put(folder / ".gitignore", "node_modules/\n*.log\n*.gen.js")
    put(folder / "src/node_modules/m/index.js", "needle")
    put(folder / "src/out.log", "needle")
    put(folder / "src/x.gen.js", "needle")
    put(folder / "src/own.js", "needle")
    result = await call(grep(Workspace(folder)), pattern="needle", glob=glob)
    assert result.text == "src/own.js"


async def test_no_match_is_a_sentence(folder: Path) -> None:
    assert await said(folder, "nothing like it") == "No line matches nothing like it."
    assert await said(folder, "zzz", path="src", glob="*.py") == (
        "No line matches zzz in src among the files that match *.py."
    )


@pytest.mark.parametrize(
    ("pattern", "what", "instead"),
    [
        ("foo(", "unclosed group", "write: foo\\("),
        ("a[", "unclosed character class", "write: a\\["),
        ("*", "repetition operator missing expression", "write: \\*"),
        (r"(?<=x", "unclosed group", ""),
        ("(a{1000}){1000}{1000}", "size limit", ""),
    ],
)
async def test_a_bad_pattern_is_explained(folder: Path, pattern: str, what: str, instead: str) -> None:
    result = await call(grep(Workspace(folder)), pattern=pattern)
    assert result.is_error
    assert result.text.startswith("The pattern is not a regular expression")
    assert instead in result.text
    assert what in result.text or "missing closing parenthesis" in result.text


async def test_the_advice_for_a_bad_pattern_works(folder: Path) -> None:
    put(folder / "odd.txt", "x foo([{.*+?^$|#&~-\\ y")
    result = await call(grep(Workspace(folder)), pattern="foo([{.*+?^$|#&~-\\")
    assert result.is_error
    advice = result.text.rpartition("write: ")[2]
    assert await said(folder, advice) == "odd.txt"


async def test_a_line_break_in_the_pattern_is_explained(folder: Path) -> None:
    result = await call(grep(Workspace(folder)), pattern=r"hello\(\):\n    pass")
    assert result.is_error
    assert result.text.startswith("A match is within one line")


async def test_look_around_and_back_references_work(folder: Path) -> None:
    assert await said(folder, r"hello(?=\(\):)", output_mode="content") == "src/b.py:1:def hello():"
    assert await said(folder, r"(l)\1o\(\)$", output_mode="content") == "src/b.py:4:hello()"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "x", "path": "nowhere"}, "nowhere does not exist"),
        ({"pattern": "x", "glob": "["}, "The glob cannot be used"),
        ({"pattern": ""}, "The pattern is empty"),
        ({"pattern": "a\0b"}, "a character that no argument can contain"),
        ({"pattern": "\ud800"}, "a character that no argument can contain"),
        ({"pattern": "x" * 30_000}, "The pattern has 30,000 characters"),
        ({"pattern": "x", "glob": "y" * 30_000 + "/*"}, "The pattern has 30,002 characters"),
    ],
)
async def test_what_cannot_be_done_is_said(folder: Path, arguments: dict[str, str], said: str) -> None:
    result = await call(grep(Workspace(folder)), **arguments)
    assert result.is_error
    assert said in result.text


@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=cat", "--help", "-", "--", "-f/etc/passwd"])
async def test_no_pattern_is_an_option(folder: Path, pattern: str) -> None:
    put(folder / "options.txt", f"the option {pattern} here\n")
    assert await said(folder, pattern, path="options.txt", output_mode="content") == (
        f"options.txt:1:the option {pattern} here"
    )


async def test_no_path_or_glob_is_an_option(folder: Path) -> None:
    put(folder / "--pre=sh/x.txt", "hello")
    assert await said(folder, "hello", path="--pre=sh") == "--pre=sh/x.txt"
    assert "No line matches" in await said(folder, "hello", glob="--pre=sh")


async def test_long_lines_are_cut(folder: Path) -> None:
    put(folder / "min.js", "needle" + "x" * 1_000_000)
    text = await said(folder, "needle", output_mode="content")
    assert text.startswith("min.js:1:needlexxx")
    assert "omitted" in text
    assert len(text) < 1000


async def test_only_so_many_lines_and_files_are_shown(folder: Path) -> None:
    put(folder / "many.txt", "needle\n" * (MOST_LINES + 7))
    lines = (await said(folder, "needle", output_mode="content")).split("\n")
    assert len(lines) == MOST_LINES + 2
    assert lines[-1].startswith("[7 more lines not shown")
    assert lines[0] == f"[{MOST_LINES + 7:,} lines match.]"
    for number in range(MOST_FILES + 3):
        put(folder / f"f/{number}.txt", "thread")
    for mode in ("files_with_matches", "count"):
        lines = (await said(folder, "thread", output_mode=mode)).split("\n")
        assert lines[MOST_FILES].startswith("[3 more files not shown")


async def test_binary_files_are_left_out(folder: Path) -> None:
    put(folder / "early.bin", b"\0\0\0 needle\n" * 10)
    put(folder / "late.bin", b"needle first\n" + b"x\n" * 200_000 + b"\0\0needle\n")
    put(folder / "z.txt", "needle\n")
    text = await said(folder, "needle", output_mode="content")
    assert set(text.split("\n")) <= {"late.bin:1:needle first", "z.txt:1:needle"}
    assert "z.txt:1:needle" in text
    assert await said(folder, "needle", path="early.bin", output_mode="content") == (
        "No line matches needle in early.bin. A binary file matches; it is not shown."
    )


async def test_utf_16_is_searched(folder: Path) -> None:
    put(folder / "windows.txt", "first\r\nnädle\r\n".encode("utf-16"))
    assert await said(folder, "nädle", output_mode="content") == "windows.txt:2:nädle"


async def test_hidden_files_are_searched_but_not_the_repository(folder: Path) -> None:
    put(folder / ".github/ci.yml", "needle")
    put(folder / ".git/packed-refs", "needle")
    assert await said(folder, "needle") == ".github/ci.yml"


async def test_a_sentence_that_no_line_has_finds_the_lines_with_most_of_its_words(folder: Path) -> None:
    put(
        folder / "CHANGES.md",
        "Removed\n- The option `--fast` is gone\n- The option `--slow`\nremoved an option --fast\n",
    )
    found = await said(folder, "removed the option `--fast`", path="CHANGES.md")
    assert found == (
        "No line matches removed the option `--fast` in CHANGES.md. These lines have some of its words:\n"
        "CHANGES.md:4:removed an option --fast"
    )
    assert "\n" not in await said(folder, "removed something else altogether"), "one word is not enough"
    assert "\n" not in await said(folder, "removed|options|other"), "not a sentence"


async def test_lines_of_hidden_files_are_not_near(folder: Path) -> None:
    put(folder / "secret.txt", "the hidden password\n")
    tool = grep(Workspace(folder), hidden=lambda path: path.endswith("secret.txt"))
    assert "hidden password" not in (await call(tool, pattern="what hidden password")).text.partition(".")[2]
