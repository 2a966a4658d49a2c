"""Hazard: a path that is no ordinary file. It is refused at once, by name, and nothing waits or fills up."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.conversation.attachments import CHUNK, Attachment
from outrider.conversation.store import AttachmentStore, FolderStore, MemoryStore
from outrider.errors import AttachmentError

pytestmark = pytest.mark.timeout(60)
posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
not_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may read everything")


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AttachmentStore:
    return FolderStore(tmp_path / "store") if request.param == "folder" else MemoryStore()


def next_handle() -> int:
    """The number that the next open file gets: it grows when one was left open."""
    handle = os.open(os.devnull, os.O_RDONLY)
    os.close(handle)
    return handle


@posix
def test_a_fifo_that_nobody_writes_to_is_refused_at_once(store: AttachmentStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AttachmentError, match="pipe is not a regular file"):
        store.put(Attachment.from_path(tmp_path / "pipe"))


@posix
def test_a_fifo_with_a_writer_is_refused_too(store: AttachmentStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(handle, b"some bytes")
        with pytest.raises(AttachmentError, match="pipe is not a regular file"):
            store.put(Attachment.from_path(tmp_path / "pipe"))
    finally:
        os.close(handle)


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused(store: AttachmentStore, device: str) -> None:
    with pytest.raises(AttachmentError, match="is not a regular file"):
        store.put(Attachment.from_path(device))


@posix
def test_a_link_to_an_endless_device_is_refused(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "holiday.png").symlink_to("/dev/zero")
    with pytest.raises(AttachmentError, match=r"holiday\.png is not a regular file"):
        store.put(Attachment.from_path(tmp_path / "holiday.png"))


@posix
def test_a_socket_is_refused(store: AttachmentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("door")
        with pytest.raises(AttachmentError, match="door cannot be read"):
            store.put(Attachment.from_path("door"))


@posix
def test_what_is_refused_is_not_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    before = next_handle()
    for name in ("pipe", "large", "missing"):
        with pytest.raises(AttachmentError):
            Attachment.from_path(tmp_path / name).open(max_bytes=4)
    assert next_handle() == before


@pytest.mark.parametrize("path", ["folder", ""], ids=["folder", "no path at all"])
def test_a_folder_is_refused_as_no_file(
    store: AttachmentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttachmentError, match="is not a regular file"):
        store.put(Attachment.from_path(path))


@posix
def test_a_folder_is_not_left_open(tmp_path: Path) -> None:
    before = next_handle()
    try:
        with pytest.raises((AttachmentError, IsADirectoryError)):
            Attachment.from_path(tmp_path).open()
        after = next_handle()
    finally:
        for handle in range(before, next_handle()):
            os.close(handle)
    assert after == before


def test_a_missing_file_is_refused_by_name(store: AttachmentStore, tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match=r"q3\.pdf cannot be read: No such file"):
        store.put(Attachment.from_path(tmp_path / "q3.pdf"))


def test_a_path_through_a_file_is_refused(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(AttachmentError, match="inner cannot be read"):
        store.put(Attachment.from_path(tmp_path / "file" / "inner"))


def test_a_name_that_is_too_long_is_refused(store: AttachmentStore, tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match="cannot be read"):
        store.put(Attachment.from_path(tmp_path / ("x" * 5000)))


def test_a_path_with_a_nul_is_refused(store: AttachmentStore, tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match=r"cannot be read: .*embedded null"):
        store.put(Attachment.from_path(f"{tmp_path}/a\0b"))


@posix
@not_root
def test_a_file_that_may_not_be_read_is_refused(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(b"x")
    (tmp_path / "secret.txt").chmod(0)
    with pytest.raises(AttachmentError, match=r"secret\.txt cannot be read: Permission denied"):
        store.put(Attachment.from_path(tmp_path / "secret.txt"))


@posix
def test_a_link_to_a_file_is_that_file_under_the_links_name(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_bytes(b"words")
    (tmp_path / "link.txt").symlink_to("real.txt")
    reference = store.put(Attachment.from_path(tmp_path / "link.txt"))
    assert (reference.name, reference.size) == ("link.txt", 5)
    assert store.read(reference) == b"words"


@posix
def test_links_that_lead_nowhere_or_in_a_circle_are_refused(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("nowhere", "circle"):
        with pytest.raises(AttachmentError, match=f"{name} cannot be read"):
            store.put(Attachment.from_path(tmp_path / name))


# A file that changes while it is read


def test_a_file_that_grows_over_the_limit_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(bytes(CHUNK + 1))
    pieces = Attachment.from_path(path).chunks(max_bytes=2 * CHUNK)
    assert len(next(pieces)) == CHUNK
    with path.open("ab") as file:
        file.write(bytes(CHUNK))
    with pytest.raises(AttachmentError, match=r"growing\.log has .*; the limit is "):
        list(pieces)


def test_a_file_that_grows_within_the_limit_is_taken_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(b"a" * CHUNK)
    pieces = Attachment.from_path(path).chunks(max_bytes=CHUNK + 1)
    first = next(pieces)
    with path.open("ab") as file:
        file.write(b"b")
    assert [first, *pieces] == [b"a" * CHUNK, b"b"]


def test_a_file_that_never_ends_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "endless.log"
    path.write_bytes(bytes(CHUNK))
    taken = 0
    with path.open("ab") as file, pytest.raises(AttachmentError):  # noqa: PT012 - it grows as it is read
        for piece in Attachment.from_path(path).chunks(max_bytes=3 * CHUNK):
            taken += len(piece)
            assert taken <= 3 * CHUNK
            file.write(bytes(CHUNK))
            file.flush()


def test_what_was_stored_of_a_growing_file_agrees_with_its_reference(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(b"a" * CHUNK)

    class Growing(Attachment, frozen=True):
        """Grows by one byte whenever a piece of it was read."""

        def chunks(self, max_bytes: int = 0) -> Iterator[bytes]:
            for piece in super().chunks(max_bytes):
                if path.stat().st_size < CHUNK + 3:
                    with path.open("ab") as file:
                        file.write(b"b")
                yield piece

    for store in (FolderStore(tmp_path / "store"), MemoryStore()):
        path.write_bytes(b"a" * CHUNK)
        reference = store.put(Growing(path))
        assert store.read(reference) == b"a" * CHUNK + b"bbb"
        assert reference.size == CHUNK + 3


def test_a_file_that_was_cut_while_it_is_read_ends_where_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    path.write_bytes(bytes(3 * CHUNK))
    pieces = Attachment.from_path(path).chunks()
    first = next(pieces)
    os.truncate(path, CHUNK)
    assert [first, *pieces] == [bytes(CHUNK)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that opens but cannot be read")
def test_a_file_that_opens_but_cannot_be_read_is_refused_by_name(store: AttachmentStore) -> None:
    with pytest.raises(AttachmentError, match="mem cannot be read: Input/output error"):
        store.put(Attachment.from_path("/proc/self/mem"))
