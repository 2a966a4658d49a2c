"""A stand-in for docker, for machines on which no container engine runs: the sub-commands that Outrider uses, no more.

A "container" is a folder that becomes another root with `unshare` and `chroot` (tests/other_root.py): it has this
Python, a shell and a few programs, and shares the network and the processes of the machine. What a real engine does
beside that (images, isolation, limits) is not shown by tests that use it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.other_root import OtherRoot


def install(folder: Path) -> Path:
    """Write the program `docker` into a folder, with its state beside, and return the folder for PATH."""
    programs, state = folder / "bin", folder / "containers"
    programs.mkdir(parents=True)
    state.mkdir()
    program = programs / "docker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {state} "$@"\n')
    program.chmod(0o755)
    return programs


class Container:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            sys.exit(f"Error response from daemon: No such container: {folder.name}")

    @property
    def labels(self) -> dict[str, str]:
        return dict(json.loads((self.folder / "labels.json").read_text()))

    @property
    def root(self) -> OtherRoot:
        return OtherRoot(self.folder / "root", programs=True)

    def kill(self) -> None:
        """Kill all that runs there."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(process / "root") == str(self.root.folder.resolve()):
                    os.kill(int(process.name), signal.SIGKILL)


def create(state: Path, words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    for option in ("--name", "--entrypoint", "--cpus", "--memory", "--network"):
        parser.add_argument(option)
    parser.add_argument("--label", action="append")
    parser.add_argument("image")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args(words)
    folder = state / options.name
    if folder.exists():
        sys.exit(f'Error response from daemon: Conflict. The container name "/{options.name}" is already in use')
    if "missing" in options.image:
        sys.exit(f"Error response from daemon: pull access denied for {options.image}")
    folder.mkdir()
    labels = dict(label.split("=", 1) for label in options.label)
    (folder / "labels.json").write_text(json.dumps(labels))
    (folder / "root" / "app").mkdir(parents=True)
    built = state.parent / "images" / options.image.replace("/", "_")
    if built.is_dir():
        shutil.copytree(built, folder / "root" / "app", dirs_exist_ok=True)
    print(options.name)


def build(state: Path, words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--tag")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(words)
    if not (options.folder / "Dockerfile").is_file():
        sys.exit("ERROR: failed to read dockerfile: open Dockerfile: no such file or directory")
    shutil.copytree(options.folder, state.parent / "images" / options.tag.replace("/", "_"), dirs_exist_ok=True)


def exec_(state: Path, words: list[str]) -> None:
    if words[0] == "-i":
        words = words[1:]
    name, *command = words
    container = Container(state / name)
    if not (container.folder / "started").exists():
        sys.exit(f"Error response from daemon: container {name} is not running")
    argv = container.root.argv(*command, home="/root", cwd="/app")
    os.execvp(argv[0], argv)


def copy(state: Path, words: list[str]) -> None:
    source, target = words
    name, _, path = target.partition(":")
    into = Container(state / name).root.folder / path.lstrip("/")
    is_inside = into.is_dir() and not source.endswith("/.")
    shutil.copytree(source, into / Path(source).name if is_inside else into, dirs_exist_ok=True)


def start(state: Path, words: list[str]) -> None:
    (Container(state / words[-1]).folder / "started").touch()


def restart(state: Path, words: list[str]) -> None:
    Container(state / words[-1]).kill()
    start(state, words)


def remove(state: Path, words: list[str]) -> None:
    container = Container(state / words[-1])
    container.kill()
    shutil.rmtree(container.folder)


def inspect(state: Path, words: list[str]) -> None:
    container = Container(state / words[-1])
    print(container.labels[words[1].split('"')[1]] if words[0] == "--format" else f"/{container.folder.name}")


def list_(state: Path, words: list[str]) -> None:
    wanted = words[words.index("--filter") + 1].removeprefix("label=") if "--all" in words else ""
    for folder in sorted(state.iterdir()):
        if not wanted or wanted in [f"{name}={value}" for name, value in Container(folder).labels.items()]:
            print(folder.name)


COMMANDS = {
    "create": create,
    "build": build,
    "exec": exec_,
    "cp": copy,
    "start": start,
    "restart": restart,
    "rm": remove,
    "inspect": inspect,
    "ps": list_,
}

if __name__ == "__main__":
    _, folder, command, *given = sys.argv
    with open(Path(folder).parent / "calls", "a") as calls:
        calls.write(json.dumps([command, *given]) + "\n")
    if command not in COMMANDS:
        sys.exit(f"the stand-in for docker has no command {command!r}")
    COMMANDS[command](Path(folder), given)
