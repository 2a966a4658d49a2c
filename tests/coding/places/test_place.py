"""The places that a user can name: what is understood, what is refused, and which command leads there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.coding.hands.place import Place
from outrider.errors import ConfigError, HandsError
from outrider.processes.programs import Programs
from tests.lengths import examples

WORDS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,10}", fullmatch=True)
PATHS = st.from_regex(r"(/[a-z0-9 ._-]{1,8}){1,3}", fullmatch=True)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Return programs of which each is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ssh", "docker", "kubectl", "enter"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return Programs([tmp_path / "project"], str(folder))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ssh://build", Place("ssh", "build", "~")),
        ("ssh://build/", Place("ssh", "build", "/")),
        ("ssh://build/~/app", Place("ssh", "build", "~/app")),
        ("ssh://ann@build:2222/srv/my%20app", Place("ssh", "ann@build", "/srv/my app", 2222)),
        ("ssh://[fe80::1]/srv", Place("ssh", "fe80::1", "/srv")),
        ("container:dev", Place("container", "dev")),
        ("container:dev_1/work", Place("container", "dev_1", "/work")),
        ("podman:dev/work", Place("container", "dev", "/work", engine="podman")),
        ("pod:web-0/srv", Place("pod", "web-0", "/srv")),
        ("enter 'my box' --", Place("command", "", command=("enter", "my box", "--"))),
    ],
)
def test_what_a_user_can_write(text: str, expected: Place) -> None:
    assert Place.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("build", "is not a workspace; write ssh://"),
        ("", "is not a workspace"),
        ("ssh://", "is not a workspace"),
        ("ssh:build", "is not a workspace"),
        ("ssh://-oProxyCommand=touch%20x/srv", "is not a workspace"),
        ("ssh://-l@build/srv", "is not a workspace"),
        ("ssh://a b/srv", "is not a workspace"),
        ("ssh://ann:secret@build/srv", "a workspace has no password"),
        ("ssh://build:0/srv", "no port between"),
        ("ssh://build:ssh/srv", "no port between"),
        ("ssh://build/a%00b", "is not a workspace"),
        ("ssh://build/a\x1b[2J", "has a control character"),
        ("container:-v/work", "is not a workspace"),
        ("container:/work", "is not a workspace"),
        ("pod:--all/x", "is not a workspace"),
        ("enter 'my box", "is no command line"),
        ("/", "is a folder of this machine: use --cwd"),
    ],
)
def test_what_is_refused(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a folder of the same name would be taken for a place of this machine
    with pytest.raises(ConfigError) as error:
        Place.parse(text)
    assert said in str(error.value)
    assert "secret" not in str(error.value)
    assert "\x1b" not in str(error.value)


@given(st.none() | WORDS, WORDS, st.none() | st.integers(1, 65535), PATHS)
@settings(max_examples=examples(100))
def test_a_place_is_described_as_it_was_written(user: str | None, host: str, port: int | None, path: str) -> None:
    text = f"ssh://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}{path}"
    assert Place.parse(text).describe() == text


@given(st.text(max_size=30).map("ssh://{}".format) | st.text(max_size=30).map("container:{}".format))
@settings(max_examples=examples(300))
def test_no_text_becomes_an_option(text: str) -> None:
    try:
        place = Place.parse(text)
    except ConfigError:
        return
    assert not place.name.startswith("-")
    if place.kind == "ssh":
        assert not any(each.isspace() for each in place.name)


def test_ssh_asks_nothing_forwards_nothing_and_takes_no_host_for_an_option(programs: Programs) -> None:
    program, *options, separator, host, command = Place.parse("ssh://ann@build:2222/srv").argv("echo x", programs)
    assert program.endswith("/ssh")
    assert {"-T", "-a", "-x", "-oBatchMode=yes", "-p2222", "-oClearAllForwardings=yes"} <= set(options)
    assert (separator, host, command) == ("--", "ann@build", "exec sh -c 'echo x'")


def test_commands_of_the_other_places(programs: Programs) -> None:
    tail = ["sh", "-c", "echo x"]
    assert Place.parse("pod:web-0/srv").argv("echo x", programs)[1:] == ["exec", "-i", "web-0", "--", *tail]
    assert Place.parse("enter box").argv("echo x", programs)[1:] == ["box", *tail]
    for complete in ("enter box outrider hands", "enter /opt/bin/outrider hands --folder /srv", "enter hands.pyz"):
        assert Place.parse(complete).argv("echo x", programs)[1:] == complete.split()[1:]


def test_a_program_of_the_project_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\n")
    (tmp_path / "ssh").chmod(0o755)
    with pytest.raises(HandsError, match=r"is inside the working folder"):
        Place.parse("ssh://build/srv").argv("echo x", Programs([tmp_path], str(tmp_path)))
