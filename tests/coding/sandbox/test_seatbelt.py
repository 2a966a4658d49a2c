"""The profile for macOS, as text. It is not run here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox.sandbox import Confinement, Host
from outrider.coding.sandbox.seatbelt import Seatbelt


@pytest.fixture
def places(tmp_path: Path) -> Confinement:
    for name in ("home/.ssh", 'wo"rk', "own"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / 'wo"rk' / ".env").touch()
    return Confinement(folder=tmp_path / 'wo"rk', cwd=tmp_path / 'wo"rk', temporary=tmp_path / "own")


def profile(places: Confinement, access: Access) -> str:
    return Seatbelt(Host(str(places.folder.parent / "home"))).profile(access, places)


def test_everything_is_denied_that_is_not_allowed(places: Confinement) -> None:
    for access in ("read", "write", "network"):
        text = profile(places, access)
        assert text.startswith("(version 1)\n(deny default)\n")
        assert text.count("(") == text.count(")")


def test_reading_writes_only_temporary_files(places: Confinement) -> None:
    text = profile(places, "read")
    assert f'(allow file-write*\n  (subpath "{places.temporary}"))' in text
    assert text.count("(allow file-write*") == 2  # the other: /dev/null and /dev/zero
    assert str(places.folder).replace('"', '\\"') + '")' not in text


def test_writing_leaves_protected_paths_alone(places: Confinement) -> None:
    folder = str(places.folder).replace('"', '\\"')
    text = profile(places, "write")
    allowed = text.index(f'(allow file-write*\n  (subpath "{folder}"))')
    denied = text.index(f'(deny file-write*\n  (subpath "{folder}/.git")')
    assert allowed < denied  # the last match decides
    assert f'(subpath "{folder}/.github")' in text[denied:]


def test_secrets_are_denied_last(places: Confinement) -> None:
    text = profile(places, "write")
    denied = text.index("(deny file-read* file-write*")
    assert denied > text.index("(deny file-write*")
    assert f'(subpath "{places.folder.parent}/home/.ssh")' in text[denied:]
    assert '.env")' in text[denied:]


def test_own_places_are_denied_and_what_commands_need_is_allowed_after(places: Confinement) -> None:
    base = places.folder.parent
    own = OwnPlaces((f"{base}/data", f"{base}/settings"), (f"{base}/settings/skills",))
    text = profile(msgspec.structs.replace(places, own=own), "read")
    denied = text.index(f'(deny file-read* file-write*\n  (subpath "{base}/data")\n  (subpath "{base}/settings"))')
    assert text.index(f'(allow file-read*\n  (subpath "{base}/settings/skills"))') > denied


def test_there_are_no_terminals(places: Confinement) -> None:
    assert '(deny file-read* (regex #"^/dev/(tty|pty|ptmx|cu)"))' in profile(places, "write")
    assert "pseudo-tty" not in profile(places, "write")


def test_the_network_is_a_level(places: Confinement) -> None:
    assert "network-outbound" not in profile(places, "write")
    assert "network-outbound" in profile(places, "network")


def test_the_command_follows_the_profile(places: Confinement) -> None:
    sandbox = Seatbelt(Host(""))
    argv = sandbox.wrap(["ls"], "read", places)
    assert argv[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert argv[3:] == ["/usr/bin/env", f"TMPDIR={places.temporary}", "ls"]
    assert sandbox.wrap(["ls"], "full", places) == ["ls"]
