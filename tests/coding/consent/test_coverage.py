"""What a consent covers: every way to name a script, and every change of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.coding.consent.command_line import project_line
from outrider.coding.consent.coverage import MOST_FILES, cover
from outrider.coding.consent.item import ConsentItem
from outrider.coding.hooks.hook_files import HookCommand, hook_item
from outrider.coding.mcp.server_files import ServerEntry, server_item
from tests.lengths import examples


def item_of(project: Path, fields: dict[str, Any], **environment: str) -> ConsentItem:
    return server_item(ServerEntry("own", fields, "here"), project / ".mcp.json", environment)


def hook_of(project: Path, command: str) -> ConsentItem:
    return hook_item(HookCommand("PreToolUse", command), project / ".claude/settings.json", 1, project, project)


def fill(project: Path, *names: str) -> None:
    for name in names:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")


WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "by its name": ({"command": "python3", "args": ["server.py"]}, "server.py"),
    "in a folder to start in": ({"command": "python3", "args": ["main.py"], "cwd": "srv"}, "srv/main.py"),
    "in a line for a shell": ({"command": "sh", "args": ["-c", "cd srv && exec python3 main.py"]}, "srv/main.py"),
    "as a module": ({"command": "python3", "args": ["-m", "srv.main"]}, "srv/main.py"),
    "as a package": ({"command": "python3", "args": ["-m", "srv"]}, "srv/__main__.py"),
    "as the value of an option": ({"command": "node", "args": ["--require=./srv/x", "-e", "1"]}, "srv/x.js"),
    "by an import beside the script": ({"command": "python3", "args": ["srv/main.py"]}, "srv/lib/helper.py"),
    "by an import in the project's own folder": ({"command": "python3", "args": ["server.py"]}, "helper.py"),
    "by a folder after an option": ({"command": "uv", "args": ["run", "--directory", "srv", "x"]}, "srv/main.py"),
    "by the default of a variable": ({"command": "python3", "args": ["${SCRIPT:-srv/main.py}"]}, "srv/main.py"),
    "by a variable for the program": ({"command": "python3", "env": {"PYTHONPATH": "srv"}}, "srv/main.py"),
    "by a file of tasks": ({"command": "make", "args": ["serve"]}, "Makefile"),
    "as an object of an application": ({"command": "uvicorn", "args": ["srv.main:app"]}, "srv/main.py"),
    "with a space in its name": ({"command": "sh", "args": ["-c", "python3 'my tools/a b.py'"]}, "my tools/a b.py"),
    "as the program itself": ({"command": "./srv/run"}, "srv/run"),
    "as a file of another kind": ({"command": "sh", "args": ["notes.txt"]}, "notes.txt"),
}  # fmt: skip
FILES = sorted({name for _, name in WAYS.values()} | {"srv/__init__.py", "data/rows.csv", "README.md"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    fill(folder, *FILES)
    (folder / "srv/run").chmod(0o755)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_a_change_of_a_script_is_noticed_however_it_is_named(project: Path, way: str) -> None:
    fields, script = WAYS[way]
    agreed = item_of(project, fields)
    assert agreed.digest == item_of(project, fields).digest == agreed.now().digest
    (project / script).write_text("evil")
    assert agreed.now().digest != agreed.digest


@pytest.mark.parametrize("way", WAYS)
def test_a_script_that_goes_or_becomes_a_link_is_noticed(project: Path, way: str) -> None:
    fields, script = WAYS[way]
    agreed = item_of(project, fields)
    content = (project / script).read_bytes()
    (project / script).unlink()
    assert agreed.now().digest != agreed.digest
    (project / "elsewhere").write_bytes(content)
    (project / script).symlink_to(project / "elsewhere")
    assert agreed.now().digest != agreed.digest


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_is_exchanged_for_a_link_is_noticed(project: Path, tmp_path: Path, way: str) -> None:
    fields, script = WAYS[way]
    if "/" not in script:
        pytest.skip("it is in the project's own folder")
    agreed = item_of(project, fields)
    top = project / script.partition("/")[0]
    shutil.copytree(top, tmp_path / "copy")
    shutil.rmtree(top)
    top.symlink_to(tmp_path / "copy")
    assert agreed.now().digest != agreed.digest


OBEYED = {
    "nox -s serve": ("noxfile.py",),
    "tox -e serve": ("tox.ini", "tox.toml"),
    "invoke serve": ("tasks.py",),
    "docker compose run srv": ("compose.yml", "docker-compose.yaml", "compose.override.yaml", "Dockerfile"),
    "docker-compose run srv": ("docker-compose.yaml", "compose.yml"),
    "podman-compose up": ("compose.yaml", "docker-compose.override.yml"),
    "task srv": ("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "taskfile.dist.yaml"),
    "mise run srv": ("mise.toml", ".mise.toml", ".config/mise/config.toml"),
    "direnv exec . srv": (".envrc",),
    "rake srv": ("Rakefile", "rakefile"),
    "bun run srv": ("package.json", "bunfig.toml"),
    "yarn srv": ("package.json", ".yarnrc.yml"),
    "npm run srv": ("package.json", ".npmrc"),
    "pnpm srv": ("package.json", ".pnpmfile.cjs"),
    "poe srv": ("pyproject.toml",),
    "composer srv": ("composer.json",),
    "mix srv": ("mix.exs",),
    "nix-shell": ("shell.nix",),
    "tilt up": ("Tiltfile",),
    "ant srv": ("build.xml",),
    "./gradlew run": ("build.gradle", "settings.gradle.kts"),
    "mvnw run": ("pom.xml",),
    "cargo run": ("Cargo.toml", ".cargo/config.toml", "build.rs"),
}


@pytest.mark.parametrize(("command", "name"), [(command, name) for command, names in OBEYED.items() for name in names])
def test_the_files_of_a_program_that_runs_tasks_count(tmp_path: Path, command: str, name: str) -> None:
    project = tmp_path / "project"
    program, *args = command.split()
    before = item_of(project, {"command": program, "args": args})
    fill(project, name)
    agreed = before.now()
    (project / name).write_text("evil")
    assert len({before.digest, agreed.digest, agreed.now().digest}) == 3


def test_each_program_has_its_own_files(project: Path) -> None:
    agreed = item_of(project, {"command": "nox"})
    fill(project, "Taskfile.yml", "tasks.py", "tox.ini", "compose.yaml")
    assert agreed.now().digest == agreed.digest


def test_a_new_file_that_shadows_an_import_is_noticed(project: Path) -> None:
    for script, new in (("srv/main.py", "srv/json.py"), ("server.py", "json.py"), ("server.py", "http/__init__.py")):
        agreed = item_of(project, {"command": "python3", "args": [script]})
        fill(project, new)
        assert agreed.now().digest != agreed.digest, new


def test_a_file_that_was_missing_is_noticed_when_it_appears(project: Path) -> None:
    agreed = item_of(project, {"command": "python3", "args": ["later.py"]})
    fill(project, "later.py")
    assert agreed.now().digest != agreed.digest


@pytest.mark.parametrize(
    "change",
    [
        *({"command": "python"}, {"args": ["b", "a"]}, {"args": ["a"]}, {"env": {"A": "2"}}, {"env": {}}),
        *({"cwd": "srv"}, {"headers": {"A": "1"}}, {"timeout": 5}, {"unknown": 1}, {"type": "stdio"}),
    ],
)
def test_every_field_counts(project: Path, change: dict[str, Any]) -> None:
    fields = {"command": "python3", "args": ["a", "b"], "env": {"A": "1"}}
    assert item_of(project, fields).digest != item_of(project, fields | change).digest


def test_the_order_of_a_table_and_what_nobody_runs_do_not_count(project: Path) -> None:
    fields = {"command": "python3", "args": ["srv/main.py"], "env": {"A": "1", "B": "2"}}
    agreed = item_of(project, fields)
    fill(project, "README.md", "other/x.py", "data/rows.csv", "srv/__pycache__/main.cpython-311.pyc", "srv/out.log")
    again = json.loads(json.dumps(dict(reversed(fields.items()))))
    assert item_of(project, again).digest == agreed.digest


def test_a_log_that_a_hook_writes_is_not_its_script(project: Path) -> None:
    for command in (
        "srv/run >> hook.txt",
        "python3 srv/main.py srv/hook.log",
        "cat > seen.json; touch begun",
        "echo x | tee -a told",
    ):
        agreed = hook_of(project, command)
        for name in ("hook.txt", "srv/hook.log", "seen.json", "begun", "told"):
            (project / name).write_text("written")
        assert agreed.now().digest == agreed.digest, command
        for name in ("hook.txt", "srv/hook.log", "seen.json", "begun", "told"):
            (project / name).unlink()


def test_a_script_that_is_written_and_run_counts(project: Path) -> None:
    for command in (": >> x.txt; sh x.txt", "sh srv.log", ". ./begun", "bash -x ./told"):
        fill(project, "x.txt", "srv.log", "begun", "told")
        agreed = hook_of(project, command)
        for name in ("x.txt", "srv.log", "begun", "told"):
            (project / name).write_text("evil")
        assert agreed.now().digest != agreed.digest, command


def test_what_is_not_covered_is_said(project: Path) -> None:
    said = {
        "make serve": "other files of the project that make runs",
        "npx @scope/files ./data": "the folder data, which is taken for data",
        "sh $WHERE/x.sh": "files that $WHERE names when the command runs",
        "sh $(cat where)": "files that $(… names when the command runs",
        "python3 server.py": "what server.py imports from folders of the project",
    }
    for command, wanted in said.items():
        assert wanted in hook_of(project, command).coverage.uncovered, command
    assert not hook_of(project, "npx @scope/files").coverage.uncovered


def test_a_folder_with_too_many_files_is_said_and_its_script_still_counts(project: Path) -> None:
    for number in range(MOST_FILES + 1):
        (project / f"srv/{number}.txt").touch()
    agreed = item_of(project, {"command": "python3", "args": ["srv/main.py"]})
    assert agreed.coverage.uncovered == ("srv, which is too large",)
    (project / "srv/main.py").write_text("evil")
    assert agreed.now().digest != agreed.digest


def test_a_pipe_and_a_circle_of_links_do_not_block(project: Path) -> None:
    os.mkfifo(project / "srv/pipe")
    (project / "srv/self").symlink_to(project / "srv")
    (project / "srv/loop").symlink_to("loop")
    agreed = item_of(project, {"command": "python3", "args": ["srv/main.py"]})
    assert agreed.now().digest == agreed.digest


NAMES = st.sampled_from(["a.py", "b.py", "lib/c.py", "lib/deep/d.json", "lib/e", "run.sh"])
FORMS = st.sampled_from(
    [
        *(
            {"args": ["t/NAME"]},
            {"args": ["-u", "t/NAME"]},
            {"args": ["--import=t/NAME"]},
            {"args": ["-c", "x('t/NAME')"]},
        ),
        *({"args": ["NAME"], "cwd": "t"}, {"args": ["${V:-t/NAME}"]}, {"args": ["-c", "1"], "env": {"X": "t/NAME"}}),
    ]
)
CHANGES = st.sampled_from(["byte", "append", "remove", "link", "mode", "rename", "new"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(400))
@given(form=FORMS, named=NAMES, changed=NAMES, change=CHANGES, content=st.binary(min_size=1, max_size=20))
def test_any_change_of_what_is_covered_changes_the_digest(
    tmp_path: Path, form: dict[str, Any], named: str, changed: str, change: str, content: bytes
) -> None:
    shutil.rmtree(tmp_path / "p", ignore_errors=True)
    fill(tmp_path / "p", *(f"t/{each}" for each in ("a.py", "b.py", "lib/c.py", "lib/deep/d.json", "lib/e", "run.sh")))
    filled = json.loads(json.dumps(form).replace("NAME", named))
    agreed = item_of(tmp_path / "p", {"command": "python3", **filled})
    covered = set(agreed.coverage.entries)
    path = tmp_path / "p/t" / changed
    before = path.read_bytes()
    match change:
        case "byte":
            path.write_bytes(content + before[len(content) :])
        case "append":
            path.write_bytes(before + content)
        case "remove":
            path.unlink()
        case "link":
            path.rename(tmp_path / "p/moved")
            path.symlink_to(tmp_path / "p/moved")
        case "mode":
            path.chmod(0o755)
        case "rename":
            path.rename(path.with_name("other.py"))
        case "new":
            path.with_name("new.py").write_bytes(content)
    is_same = change == "byte" and path.read_bytes() == before
    counts = str(path.parent if change == "new" else path) in covered or (
        change == "new" and any(str(path.parent).startswith(f"{each}") for each in covered if os.path.isdir(each))
    )
    assert (agreed.now().digest != agreed.digest) == (counts and not is_same)


@settings(max_examples=examples(300))
@given(text=st.text(max_size=200))
def test_no_command_line_breaks_it(text: str) -> None:
    line = project_line([text, f"sh -c '{text}'"], Path("/nonexistent"))
    assert cover([line]) == cover([line])
