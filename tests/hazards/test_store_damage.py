"""Hazard: an attachment store whose files were changed, whose folder cannot be used, or whose references are forged."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from outrider.conversation.attachments import CHUNK, Attachment, sha256
from outrider.conversation.codec import from_json, to_json
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.errors import AttachmentError

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
not_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write everywhere")

NOTES = Attachment(b"the true words", name="notes.txt")


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def damaged(folder: Path, content: bytes) -> tuple[FolderStore, AttachmentBlock]:
    store = FolderStore(folder)
    reference = store.put(NOTES)
    (path,) = files_in(folder)
    path.write_bytes(content)
    return store, reference


# Files that were changed


@pytest.mark.parametrize("content", [b"the fake words", b"the true word", b"the true words!", b""])
def test_bytes_that_were_changed_on_disk_are_not_used(tmp_path: Path, content: bytes) -> None:
    store, reference = damaged(tmp_path, content)
    with pytest.raises(AttachmentError, match=r"notes\.txt was changed in the attachment store"):
        store.read(reference)


def test_a_file_that_was_removed_is_named(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    reference = store.put(NOTES)
    for path in files_in(tmp_path):
        path.unlink()
    with pytest.raises(AttachmentError, match=r"notes\.txt is not in the attachment store"):
        store.read(reference)
    store.put(NOTES)
    assert store.read(reference) == b"the true words"


@pytest.mark.parametrize("content", [b"the fake words", b"the tr", b""], ids=["changed", "cut", "empty"])
def test_putting_the_file_again_mends_the_damage(tmp_path: Path, content: bytes) -> None:
    store, reference = damaged(tmp_path, content)
    assert store.put(NOTES) == reference
    assert store.read(reference) == b"the true words"


def test_a_damaged_file_is_not_carried_to_another_machine(tmp_path: Path) -> None:
    store, reference = damaged(tmp_path, b"the fake words")
    with pytest.raises(AttachmentError, match="was changed"):
        to_json([Message.user(reference)], store)


def test_a_folder_in_the_place_of_a_file_is_a_missing_file(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    reference = store.put(NOTES)
    (path,) = files_in(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(AttachmentError, match=r"notes\.txt is not in the attachment store"):
        store.read(reference)


def test_a_temporary_file_that_a_crash_left_behind_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "incoming-left-behind").write_bytes(b"the tr")
    store = FolderStore(tmp_path)
    assert store.read(store.put(NOTES)) == b"the true words"


# Folders that cannot be used


def test_a_file_in_the_place_of_the_folder_is_an_ordinary_error(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"not a folder")
    store = FolderStore(tmp_path / "store")
    with pytest.raises(AttachmentError, match=r"the attachment store .*store cannot be written: "):
        store.put(NOTES)
    with pytest.raises(AttachmentError, match="is not in the attachment store"):
        store.read(AttachmentBlock("a" * 64, "text/plain", 1))
    assert (tmp_path / "store").read_bytes() == b"not a folder"


def test_a_file_above_the_place_of_the_folder_is_an_ordinary_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"not a folder")
    with pytest.raises(AttachmentError, match="cannot be written"):
        FolderStore(tmp_path / "data" / "attachments").put(NOTES)


def test_a_file_in_the_place_of_a_folder_inside_the_store_is_an_ordinary_error(tmp_path: Path) -> None:
    (tmp_path / sha256(b"the true words")[:2]).write_bytes(b"not a folder")
    with pytest.raises(AttachmentError, match="cannot be written"):
        FolderStore(tmp_path).put(NOTES)
    assert len(files_in(tmp_path)) == 1, "no temporary file stays behind"


@posix
@not_root
def test_a_folder_that_may_not_be_written_is_an_ordinary_error(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        with pytest.raises(AttachmentError, match="cannot be written: Permission denied"):
            FolderStore(folder).put(NOTES)
    finally:
        folder.chmod(0o700)


@posix
@not_root
def test_a_file_that_may_not_be_read_is_an_ordinary_error(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    reference = store.put(NOTES)
    (path,) = files_in(tmp_path)
    path.chmod(0)
    with pytest.raises(AttachmentError, match=r"notes\.txt is not in the attachment store"):
        store.read(reference)


@pytest.fixture
def small_disk() -> Iterator[int]:
    """No file may have more bytes than this: writing fails as it does on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK, before[1]))
    yield CHUNK
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_is_an_ordinary_error_and_leaves_nothing_behind(tmp_path: Path, small_disk: int) -> None:
    store = FolderStore(tmp_path)
    with pytest.raises(AttachmentError, match="cannot be written: File too large"):
        store.put(Attachment(bytes(3 * small_disk)))
    assert files_in(tmp_path) == []
    assert store.read(store.put(NOTES)) == b"the true words"


# References that someone forged


FORGED = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "",
    "a" * 63,
    "a" * 65,
    "A" * 64,
    "g" * 64,
    "a" * 63 + "\n",
    "a" * 63 + "\0",
    "../" * 20 + "abcd",
    "٣" * 64,
    "\ud800" * 64,
    ("../secret/" + "a" * 64)[:64],
]


@pytest.mark.parametrize("name", FORGED, ids=ascii)
def test_only_a_hash_becomes_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(AttachmentError, match="is not a SHA-256"):
        FolderStore(tmp_path / "store").read(AttachmentBlock(name, "text/plain", 1))


@pytest.mark.parametrize("name", FORGED, ids=ascii)
def test_a_store_in_memory_does_not_know_a_forged_name(name: str) -> None:
    with pytest.raises(AttachmentError, match="is not in the attachment store"):
        MemoryStore().read(AttachmentBlock(name, "text/plain", 1))


def test_a_forged_reference_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    store = FolderStore(tmp_path / "store")
    store.put(NOTES)
    for name in ("../secret", "../../secret", str(tmp_path / "secret")):
        (message,) = from_json(to_json([Message.user(AttachmentBlock(name, "text/plain", 6))]), store)
        with pytest.raises(AttachmentError, match="is not a SHA-256"):
            to_json([message], store)


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_reference_that_lies_about_the_size_is_refused(tmp_path: Path, kind: str) -> None:
    store = FolderStore(tmp_path) if kind == "folder" else MemoryStore()
    reference = msgspec.structs.replace(store.put(NOTES), size=1)
    with pytest.raises(AttachmentError):
        store.read(reference)


# Several at once


def test_the_same_file_put_by_many_threads_at_once_is_stored_once(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    source = tmp_path / "source.bin"
    source.write_bytes(data)
    start = threading.Barrier(8)

    def put(_: int) -> AttachmentBlock:
        store = FolderStore(tmp_path / "store")
        start.wait(10)
        return store.put(Attachment.from_path(source))

    with ThreadPoolExecutor(8) as pool:
        references = set(pool.map(put, range(8)))
    assert len(references) == 1
    assert len(files_in(tmp_path / "store")) == 1
    assert FolderStore(tmp_path / "store").read(references.pop()) == data


def test_different_files_put_at_once_all_arrive(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    contents = [b"%d" % number * 1000 for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        references = list(pool.map(lambda data: store.put(Attachment(data)), contents))
    assert [store.read(reference) for reference in references] == contents
    assert len(files_in(tmp_path)) == 40
