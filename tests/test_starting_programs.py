"""Outrider starts programs in one way: by absolute paths from one resolver, and Python without the current folder.

This reads the source. A new call of `subprocess` or `shutil.which` anywhere else fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider

SOURCE = Path(outrider.__file__).parent
STARTERS = {
    "processes/starting.py": "run() and start(), which refuse a path that is not absolute",
    "processes/processes.py": "Processes.start(), which refuses one as well",
    "processes/guard.py": "/bin/sh with the PATH of the system",
    "coding/sandbox/placeholders.py": "the keeper: /bin/sh and our own Python, with an empty environment",
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


def files() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


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


@pytest.mark.parametrize("file", files())
def test_programs_are_started_and_found_in_one_place(file: str) -> None:
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    started = {name for name in starts(tree) if is_start(name)}
    assert not started or file in STARTERS, f"use outrider.processes.starting instead of {started}"
    found = set(finds(tree))
    assert not found or file in FINDERS, f"use outrider.processes.programs instead of {found}"


@pytest.mark.parametrize("file", files())
def test_python_modules_run_without_the_current_folder(file: str) -> None:
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            names = [dotted(each) for each in node.elts]
            if "-m" in words or ("sys.executable" in names and len(node.elts) > 1):
                assert {"-P", "-I"} & set(words), f"line {node.lineno}: `python -m` imports from the current folder"


def test_the_lists_name_files_that_need_it() -> None:
    for file in STARTERS:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        assert any(map(is_start, starts(tree))), file
    for file in FINDERS:
        assert set(finds(ast.parse((SOURCE / file).read_text(encoding="utf-8")))), file


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
