"""What the user has agreed to, on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.coding.consent.item import MAX_CONTENTS, ConsentItem, Consents, waiting_note
from outrider.errors import ConfigError
from tests.coding.config import Home, mode_of


def item(file: Path, content: str, *secrets: str) -> ConsentItem:
    return ConsentItem(kind="server", name="a", file=file, declaration=content, secrets=secrets)


def stored(home: Home) -> Path:
    """The one file of consents."""
    (found,) = home.data.rglob("consent.json")
    return found


def test_a_consent_is_remembered_by_another_process(home: Home) -> None:
    Consents(home.data).give([item(home.project_file, "content")])
    assert Consents(home.data).is_given(item(home.project_file, "content"))
    assert not Consents(home.data).is_given(item(home.project_file, "content "))
    assert not Consents(home.data).is_given(item(home.project.parent / ".outrider" / "config.toml", "content"))


def test_it_is_kept_for_the_owner_alone_whatever_the_umask(home: Home) -> None:
    before = os.umask(0)
    try:
        Consents(home.data).give([item(home.project_file, "content")])
    finally:
        os.umask(before)
    assert mode_of(stored(home)) == 0o600
    for folder in (home.data, home.data / "projects", stored(home).parent):
        assert mode_of(folder) == 0o700
    assert not list(home.data.rglob("incoming-*"))


def test_older_contents_stay_agreed_to_up_to_a_number(home: Home) -> None:
    consents = Consents(home.data)
    for number in range(MAX_CONTENTS + 1):
        consents.give([item(home.project_file, f"{number}")])
    consents.give([item(home.project_file, "1")])
    assert not consents.is_given(item(home.project_file, "0"))
    assert all(consents.is_given(item(home.project_file, f"{number}")) for number in range(1, MAX_CONTENTS + 1))


def test_what_was_agreed_to_can_be_taken_back(home: Home) -> None:
    consents = Consents(home.data)
    assert not consents.forget(home.project)
    consents.give([item(home.project_file, "content")])
    assert consents.forget(home.project)
    assert not consents.is_given(item(home.project_file, "content"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=st.binary(max_size=100))
def test_a_damaged_store_is_no_consent_and_can_be_written_again(home: Home, damage: bytes) -> None:
    consents = Consents(home.data)
    consents.give([item(home.project_file, "content")])
    stored(home).write_bytes(damage)
    assert not consents.is_given(item(home.project_file, "content"))
    consents.give([item(home.project_file, "content")])
    assert consents.is_given(item(home.project_file, "content"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 300), put=st.binary(max_size=3))
def test_half_a_store_never_crashes(home: Home, cut: int, put: bytes) -> None:
    consents = Consents(home.data)
    consents.give([item(home.project_file, "content")])
    whole = stored(home).read_bytes()
    stored(home).write_bytes(whole[:cut] + put + whole[cut + len(put) :])
    assert not consents.is_given(item(home.project_file, "other content"))


def test_a_consent_of_another_project_that_was_copied_there_does_not_count(home: Home) -> None:
    consents = Consents(home.data)
    consents.give([item(home.project_file, "content")])
    other = home.project.parent / "other" / ".outrider" / "config.toml"
    consents.give([item(other, "something")])
    stores = {path.parent.name.rpartition("-")[0]: path for path in home.data.rglob("consent.json")}
    stores["other"].write_bytes(stores["project"].read_bytes())
    assert not consents.is_given(item(other, "content"))


def test_a_fifo_in_place_of_the_store_is_no_consent(home: Home) -> None:
    consents = Consents(home.data)
    consents.give([item(home.project_file, "content")])
    stored(home).unlink()
    os.mkfifo(home.data / "projects" / next((home.data / "projects").iterdir()).name / "consent.json")
    assert not consents.is_given(item(home.project_file, "content"))


def test_a_data_folder_that_cannot_be_written_is_said(home: Home) -> None:
    home.data.write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        Consents(home.data).give([item(home.project_file, "content")])
    assert not Consents(home.data).is_given(item(home.project_file, "content"))
    assert not Consents(home.data).forget(home.project)


def test_a_project_whose_name_is_no_text_can_be_agreed_to(home: Home) -> None:
    odd = Path(os.fsdecode(os.fsencode(home.project) + b"\xff\n")) / ".outrider" / "config.toml"
    odd.parent.mkdir(parents=True)
    odd.write_text('permissions.mode = "all"')
    waiting = home.load(folder=odd.parent.parent).waiting
    assert waiting
    Consents(home.data).give(waiting)
    assert not home.load(folder=odd.parent.parent).waiting


def test_what_waits_is_a_sentence_without_anything_of_the_file(home: Home) -> None:
    home.project_says('tool_files = ["\\u001b[2J.py"]\npermissions.mode = "all"')
    said = waiting_note(home.load().waiting)
    assert said.startswith("2 settings (tool_files, permissions.mode) wait for your consent")
    assert said.endswith("outrider trust")


def test_a_secret_must_be_confirmed_by_name(home: Home) -> None:
    consents, wanted = Consents(home.data), item(home.project_file, "content", "GITHUB_TOKEN", "OTHER_TOKEN")
    consents.give([wanted], ["GITHUB_TOKEN"])
    assert not consents.is_given(wanted)
    consents.give([wanted], ["GITHUB_TOKEN", "OTHER_TOKEN"])
    assert consents.is_given(wanted)


def test_a_consent_of_an_earlier_version_asks_again(home: Home) -> None:
    consents = Consents(home.data)
    consents.give([item(home.project_file, "content")])
    stored(home).write_text('{"file": "x", "sha256": ["00"]}')
    assert not consents.is_given(item(home.project_file, "content"))
