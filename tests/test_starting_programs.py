"""Outrider starts programs in one way: by absolute paths from one resolver, and Python without the current folder.

This reads the source. A new call of `subprocess` or `shutil.which` anywhere else fails here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider

SOURCE = Path(outrider.__file__).parent
STARTERS = {
    "processes/starting.py": "run() and start(), which refuse a path that is not absolute",
    "processes/processes.py": "Processes.start(), which refuses one as well",
    "processes/guard.py": "/bin/sh with the PATH of the system",
    "coding/sandbox/bubblewrap.py": "the keeper: /bin/sh and our own Python, with an empty environment",
    "coding/sandbox/landlock_launcher.py": "becomes the command that was resolved before",
    "coding/sandbox/network_launcher.py": "starts the bwrap that was resolved before",
    "acp/command.py": "becomes this installation's own Python",
    "cli/demo/batch.py": "this installation's own Python",
    "cli/demo/editor.py": "this installation's own Python",
    "cli/demo/long_day.py": "this installation's own Python",
}
FINDERS = {"processes/programs.py": "the resolver"}
MODULES = ("subprocess", "pty", "webbrowser", "multiprocessing")
STARTS = ("exec", "spawn", "posix_spawn", "system", "popen", "startfile", "create_subprocess", "subprocess_")
HARMLESS = ("subprocess.PIPE", "subprocess.DEVNULL", "subprocess.STDOUT", "subprocess.Process")


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.AST]:
    """The files of the source in which a word of this page stands, parsed once. Most of the files have none."""
    started = rf"\b(os|asyncio|loop)\.({'|'.join(STARTS)})"
    words = re.compile(rf"\b({'|'.join(MODULES)}|shutil|sys\.executable|from (os|asyncio))\b|[\"']-m[\"']|{started}")
    texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py")))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(text) for path, text in texts if words.search(text)}


def dotted(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case ast.Name(id=name):
            return name
    return ""


def starts(tree: ast.AST) -> Iterator[str]:
    """Yield what can start a program, or says that it will."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in MODULES)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{each.name}" for each in names if module in (*MODULES, "os", "asyncio"))
            case ast.Attribute():
                yield dotted(node)


def is_start(name: str) -> bool:
    if name.endswith(HARMLESS):
        return False
    first, _, rest = name.partition(".")
    return first in MODULES or (first in ("os", "asyncio", "loop") and rest.startswith(STARTS))


def finds(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="shutil", names=names):
                yield from (f"shutil.{each.name}" for each in names if each.name == "which")
            case ast.Attribute() if dotted(node) == "shutil.which":
                yield "shutil.which"


def test_programs_are_started_in_one_place(trees: dict[str, ast.AST]) -> None:
    """By `outrider.processes.starting`. The list of the others names no file that does not need it."""
    started = {file: {name for name in starts(tree) if is_start(name)} for file, tree in trees.items()}
    assert {file: names for file, names in started.items() if names and file not in STARTERS} == {}
    assert [file for file in STARTERS if not started[file]] == []


def test_programs_are_found_in_one_place(trees: dict[str, ast.AST]) -> None:
    """By `outrider.processes.programs`."""
    assert {file for file, tree in trees.items() if set(finds(tree))} == set(FINDERS)


def without_isolation(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which `python -m` imports from the current folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            names = [dotted(each) for each in node.elts]
            is_python = "-m" in words[:-1] or ("sys.executable" in names and len(node.elts) > 1)
            if is_python and not {"-P", "-I"} & set(words):
                yield node.lineno


def test_python_modules_run_without_the_current_folder(trees: dict[str, ast.AST]) -> None:
    assert {file: lines for file, tree in trees.items() if (lines := [*without_isolation(tree)])} == {}
    assert [*without_isolation(ast.parse("[sys.executable, '-m', 'outrider']"))] == [1]
    assert [*without_isolation(ast.parse("[sys.executable, '-P', '-m', 'outrider']"))] == []


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from subprocess import run",
        "import os; os.execvp('x', [])",
        "from os import posix_spawn",
        "import asyncio; asyncio.create_subprocess_exec('git')",
        "import os; os.system('git')",
        "import webbrowser",
    ],
)
def test_the_check_sees_each_way_to_start_a_program(text: str) -> None:
    assert any(map(is_start, starts(ast.parse(text))))
    assert not any(map(is_start, starts(ast.parse("import asyncio, os; asyncio.subprocess.PIPE, os.path.join"))))
    assert set(finds(ast.parse("from shutil import which"))) == {"shutil.which"}
