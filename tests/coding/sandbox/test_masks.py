"""How many secrets are covered: folders of secrets as a whole, and a doubt where there are too many."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox import bubblewrap, secret_search
from outrider.coding.sandbox.available import try_sandbox
from outrider.coding.sandbox.bubblewrap import TOO_MANY, plan_masks
from outrider.coding.sandbox.sandbox import Confinement, DoubtError, Sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "work"
    (folder / "keys").mkdir(parents=True)
    return folder


def make(folder: Path, count: int) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.pem" for number in range(count)]
    for path in paths:
        path.write_text("canary")
    return [str(path) for path in paths]


def test_a_folder_of_many_secrets_is_covered_as_a_whole(folder: Path) -> None:
    many, few = make(folder / "keys", 3_000), make(folder / "few", 3)
    (folder / "keys" / "README").touch()
    plan = plan_masks([*many, *few], [str(folder)])
    assert plan.secrets == tuple(few)
    assert plan.folders == {str(folder / "keys"): (str(folder / "keys" / "README"),)}
    assert plan.incomplete == ""


def test_a_working_folder_is_not_covered_and_places_with_few_secrets_come_first(folder: Path) -> None:
    many = make(folder, 3_000)
    plan = plan_masks([*many, str(folder / "a" / ".env")], [str(folder)])
    assert plan.folders == {}
    assert plan.secrets[0] == str(folder / "a" / ".env")
    assert (len(plan.secrets), plan.incomplete) == (bubblewrap.MASKS, TOO_MANY)


# With the sandbox of this machine


@pytest.fixture
def sandbox() -> Sandbox:
    found, state = try_sandbox()
    return found or pytest.skip(state)


def places(folder: Path, accepted: tuple[str, ...] | None = ()) -> Confinement:
    (folder.parent / "own").mkdir(exist_ok=True)
    return Confinement(folder=folder, cwd=folder, temporary=folder.parent / "own", accepted=accepted)


def said(sandbox: Sandbox, where: Confinement, script: str) -> str:
    argv = sandbox.wrap(["/bin/sh", "-c", script], "read", where)
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def test_thousands_of_keys_in_a_folder_leave_no_secret_open(folder: Path, sandbox: Sandbox) -> None:
    make(folder / "keys", 3_000)
    (folder / ".env").write_text("canary")
    (folder / "keys" / "README").write_text("ordinary")
    assert said(sandbox, places(folder), "cat keys/* .env keys/1.pem") == "ordinary"


def test_what_is_hidden_beside_many_keys_stays_hidden(folder: Path, sandbox: Sandbox) -> None:
    make(folder / "keys", 20)
    (folder / "keys" / "data").mkdir()
    (folder / "keys" / "data" / "log.db").write_text("canary")
    (folder / "keys" / "README").write_text("ordinary")
    where = msgspec.structs.replace(places(folder), own=OwnPlaces((str(folder / "keys" / "data"),)))
    assert said(sandbox, where, "cat keys/README keys/data/log.db") == "ordinary"


def test_too_large_a_folder_is_a_doubt_until_it_is_accepted(
    folder: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_search, "FOLDERS", 2)
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
    doubts = sandbox.doubts("read", places(folder))
    assert "more than 2 folders" in doubts[0]
    assert str(folder) in doubts[0]
    with pytest.raises(DoubtError, match="more than 2 folders"):
        said(sandbox, places(folder), "echo ran")
    assert said(sandbox, places(folder, doubts), "echo ran") == "ran\n"
    assert said(sandbox, places(folder, None), "echo ran") == "ran\n"


def test_doubts_are_known_again_after_the_last_command(
    folder: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sandbox.doubts("read", places(folder)) == ()
    monkeypatch.setattr(secret_search, "FOLDERS", 1)
    with pytest.raises(DoubtError):
        said(sandbox, places(folder), "echo ran")
    assert sandbox.doubts("read", places(folder)) != ()
