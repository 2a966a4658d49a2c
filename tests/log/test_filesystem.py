"""Network file systems are detected and reported, and the log uses a safe journal mode there."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.errors import SessionHeldError
from outrider.log.log import Log
from outrider.log.sqlite import filesystem
from outrider.log.sqlite.filesystem import NETWORK, kind_in_mountinfo, network_file_system
from outrider.processes import starting
from outrider.processes.starting import Ended
from outrider.runtime.events import Event, Notice
from tests.log import Process, look, open_session, patch_everywhere

# As on a real machine: a root, a tmpfs, network mounts, one with spaces in its name, and one mount that covers another.
MOUNTS = r"""
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard
22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw
23 22 0:20 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw
24 21 0:21 / /proc rw,nosuid - proc proc rw
25 21 8:1 / /home rw,relatime shared:4 - btrfs /dev/sdb1 rw
26 25 0:50 / /home/ann rw,relatime shared:5 - nfs4 server:/ann rw,vers=4.2
27 26 8:17 / /home/ann/disk rw,relatime - xfs /dev/sdc1 rw
28 21 0:51 / /mnt/My\040Passport rw - cifs //nas/share rw
29 21 0:52 / /mnt/tab\011and\134backslash rw - fuse.sshfs ann@host:/ rw
30 21 0:53 / /mnt/twice rw - ext4 /dev/sdd1 rw
31 30 0:54 / /mnt/twice rw - nfs server:/twice rw
32 21 0:55 / /mnt/again rw - nfs server:/again rw
33 32 0:56 / /mnt/again rw - ext4 /dev/sde1 rw
34 21 0:57 / /mnt/dash\040-\040dash rw - 9p host rw
35 21 0:58 / /var/lib/docker/overlay2/merged rw - overlay overlay rw
36 21 0:59 / /nobody/says-what
a line that makes no sense
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/srv/log", "ext4"),
        ("/dev/shm/log", "tmpfs"),
        ("/home", "btrfs"),
        ("/home/bob", "btrfs"),
        ("/home/ann", "nfs4"),
        ("/home/ann/.local/share/outrider", "nfs4"),
        ("/home/anna", "btrfs"),
        ("/home/ann/disk/log", "xfs"),
        ("/mnt/My Passport/log", "cifs"),
        ("/mnt/My", "ext4"),
        ("/mnt/tab\tand\\backslash/log", "fuse.sshfs"),
        ("/mnt/twice/log", "nfs"),
        ("/mnt/again/log", "ext4"),
        ("/mnt/dash - dash", "9p"),
        ("/var/lib/docker/overlay2/merged/root", "overlay"),
        ("/nobody/says-what", "ext4"),
    ],
)
def test_the_deepest_and_then_the_latest_mount_counts(folder: str, kind: str) -> None:
    assert kind_in_mountinfo(MOUNTS, Path(folder)) == kind


def test_without_mounts_nothing_is_known() -> None:
    assert kind_in_mountinfo("", Path("/home")) == ""
    assert kind_in_mountinfo("\n\nnonsense - \n", Path("/home")) == ""


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "fuse.sshfs",
        "9p",
        "virtiofs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
    ],
)
def test_what_another_machine_serves_is_a_network_file_system(kind: str) -> None:
    assert re.fullmatch(NETWORK, kind)


@pytest.mark.parametrize(
    "kind",
    [
        "ext2",
        "ext4",
        "tmpfs",
        "overlay",
        "btrfs",
        "xfs",
        "zfs",
        "f2fs",
        "vfat",
        "exfat",
        "ntfs3",
        "fuseblk",
        "apfs",
        "fuse",
        "",
    ],
)
def test_a_disk_of_this_machine_is_none(kind: str) -> None:
    assert not re.fullmatch(NETWORK, kind)


def test_a_share_of_windows_is_on_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    monkeypatch.setattr(sys, "platform", "win32")
    assert network_file_system(Path("\\\\server\\share\\log")) == "smb2"
    assert network_file_system(Path("C:\\log")) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's list of mounts")
def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    kind = kind_in_mountinfo(Path("/proc/self/mountinfo").read_text(), tmp_path.resolve())
    assert kind
    assert network_file_system(tmp_path) == (kind if re.fullmatch(NETWORK, kind) else "")
    assert network_file_system(Path("/proc")) == ""
    assert network_file_system(tmp_path / "not" / "there" / "yet") == network_file_system(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's list of mounts")
def test_a_link_is_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    mounts = f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path.resolve()}/there rw - nfs4 x rw\n"
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, **how: mounts if self.name == "mountinfo" else read(self, **how)
    )
    assert network_file_system(tmp_path / "link") == "nfs4"
    assert network_file_system(tmp_path) == ""


@pytest.mark.parametrize("error", [OSError("no"), TimeoutError("mount"), ValueError("no")], ids=repr)
def test_what_cannot_be_found_out_counts_as_a_disk(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(folder: Path) -> str:
        raise error

    monkeypatch.setattr(filesystem, "_kind_on_linux", fails)
    monkeypatch.setattr(filesystem, "_kind_by_mount", fails)
    assert network_file_system(Path("/")) == ""


MACOS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
//ann@nas._smb._tcp.local/My%20Share on /Volumes/My Share (smbfs, nodev, nosuid, mounted by ann)
server:/export on /Volumes/export (nfs)
/dev/disk5s1 on /Volumes/Time (Machine) (hfs, local, nodev)
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/Users/ann", ""),
        ("/Volumes/My Share/log", "smbfs"),
        ("/Volumes/export/log", "nfs"),
        ("/Volumes/Time (Machine)/log", ""),
    ],
)
def test_macos_is_asked_with_mount(monkeypatch: pytest.MonkeyPatch, folder: str, kind: str) -> None:
    def run(command: list[str], **options: Any) -> Ended:
        assert command == ["/sbin/mount"]
        return Ended(0, MACOS.encode(), b"")

    monkeypatch.setattr(filesystem, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(starting, "run", run)
    assert network_file_system(Path(folder)) == kind


# On such a file system


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, network_file_system=lambda folder: "nfs4")


def test_a_log_on_a_disk_has_nothing_to_warn_of(tmp_path: Path) -> None:
    assert Log(tmp_path).warning == ""
    assert Log(tmp_path / "not" / "there" / "yet").warning == ""


@pytest.mark.usefixtures("network")
def test_a_log_on_a_network_file_system_says_so_and_what_to_do(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "not" / "there" / "yet"):
        warning = Log(folder).warning
        assert "on a network file system (nfs4)" in warning
        assert "set OUTRIDER_HOME to a folder on a disk of this machine" in warning


@pytest.mark.usefixtures("network")
async def test_there_the_log_works_without_memory_that_machines_cannot_share(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = open_session(log, ["One.", "Two."])
        await session.run("first")
        assert {"log.db-wal", "log.db-shm"}.isdisjoint(os.listdir(tmp_path))
        assert look(log, "PRAGMA journal_mode") != [("wal",)]
        assert log.messages(session.id) == session.messages
        with pytest.raises(SessionHeldError):
            log.open(session.id)
        await session.run("second")
        session.close()
        assert [summary.title for summary in log.sessions()] == ["first"]
        with open_session(log, ["Three."], id=session.id) as again:
            assert again.messages == session.messages
            assert (await again.run("third")).text == "Three."


@pytest.mark.usefixtures("network")
def test_who_observes_a_session_there_is_told(tmp_path: Path) -> None:
    events: list[Event] = []
    with Log(tmp_path) as log, open_session(log, observer=events.append):
        assert [event.text for event in events if isinstance(event, Notice)] == [log.warning]


@pytest.mark.usefixtures("network")
def test_there_another_process_can_look_while_a_session_is_held(tmp_path: Path) -> None:
    with Log(tmp_path) as log, open_session(log, ["One."]) as session:
        asyncio.run(session.run("first"))
        script = """
            say([message.text for message in Log(arguments[0]).messages(arguments[1])])
        """
        with Process(script, tmp_path, session.id) as process:
            assert process.hear() == "['first', 'One.']"


def test_a_log_that_was_moved_to_a_network_file_system_changes_its_ways_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for kind in ("", "nfs4", ""):
        patch_everywhere(monkeypatch, network_file_system=lambda folder, kind=kind: kind)
        with Log(tmp_path) as log, open_session(log, ["ok"]) as session:
            asyncio.run(session.run("hello"))
            names.append(session.id)
            assert (tmp_path / "log.db-wal").exists() == (not kind)
            assert {summary.id for summary in log.sessions()} == set(names)
