"""Attachment stores: each file once, by its hash, for the owner alone, and never held whole in memory."""

from __future__ import annotations

import os
import stat
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.conversation.attachments import MAX_BYTES, Attachment, sha256
from outrider.conversation.codec import from_json, to_json
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.store import AttachmentStore, FolderStore, MemoryStore
from outrider.errors import AttachmentError
from tests.lengths import examples

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AttachmentStore:
    return FolderStore(tmp_path / "store") if request.param == "folder" else MemoryStore()


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that hides nothing by itself, so that what is private was made so on purpose."""
    before = os.umask(0)
    yield
    os.umask(before)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Put and read


def test_what_is_put_can_be_read_by_its_reference(store: AttachmentStore) -> None:
    reference = store.put(Attachment(PNG, name="a.png", description="a chart"))
    assert reference == AttachmentBlock(sha256(PNG), "image/png", len(PNG), "a.png", "a chart")
    assert store.read(reference) == PNG


def test_a_file_on_disk_is_put_like_bytes(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    assert store.put(Attachment.from_path(tmp_path / "a.png")) == store.put(Attachment(PNG, name="a.png"))


def test_the_stored_bytes_do_not_change_with_the_file(store: AttachmentStore, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"before")
    reference = store.put(Attachment.from_path(path))
    path.write_bytes(b"after!")
    assert store.read(reference) == b"before"


def test_an_empty_file_can_be_put_and_read(store: AttachmentStore) -> None:
    reference = store.put(Attachment(b""))
    assert reference.size == 0
    assert store.read(reference) == b""


def test_the_same_bytes_under_two_names_are_two_references_to_one_file(store: AttachmentStore) -> None:
    one = store.put(Attachment(PNG, name="one.png"))
    two = store.put(Attachment(PNG, name="two.png"))
    assert one.sha256 == two.sha256
    assert (one.name, two.name) == ("one.png", "two.png")
    assert store.read(one) == store.read(two) == PNG


def test_a_file_that_is_not_there_is_named_and_so_is_its_hash(store: AttachmentStore) -> None:
    with pytest.raises(AttachmentError, match=r"q3\.pdf is not in the attachment store \(sha256 abababababab…\)"):
        store.read(AttachmentBlock("ab" * 32, "application/pdf", 3, "q3.pdf"))


def test_exactly_at_the_limit_is_stored_and_one_over_is_refused(store: AttachmentStore) -> None:
    assert store.read(store.put(Attachment(b"0123456789"), max_bytes=10)) == b"0123456789"
    refused = Attachment(b"0123456789x", name="eleven")
    with pytest.raises(AttachmentError, match="eleven has 11 bytes; the limit is 10 bytes"):
        store.put(refused, max_bytes=10)
    with pytest.raises(AttachmentError, match="not in the attachment store"):
        store.read(AttachmentBlock(sha256(b"0123456789x"), "text/plain", 11))


def test_the_default_limit_is_that_of_attachments(store: AttachmentStore, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(AttachmentError, match=r"large has .*; the limit is "):
        store.put(Attachment.from_path(path))


names = st.sampled_from(["", "a.txt", "a.docx", "a.csv", "a.unheard-of"])
labels = st.sampled_from(["", "text/plain", "application/octet-stream", "image/bmp"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(st.binary(max_size=50) | st.just(PNG), names, labels)
def test_whatever_a_store_took_can_be_carried_to_another(data: bytes, name: str, label: str) -> None:
    here, there = MemoryStore(), MemoryStore()
    try:
        reference = here.put(Attachment(data, label, name))
    except AttachmentError:
        assert label  # only a label can be wrong
        return
    assert from_json(to_json([Message.user(reference)], here), there) == [Message.user(reference)]
    assert there.read(reference) == data


# In a folder


def test_another_process_finds_the_file_in_the_same_folder(tmp_path: Path) -> None:
    reference = FolderStore(tmp_path).put(Attachment(PNG))
    assert FolderStore(str(tmp_path)).read(reference) == PNG


def test_putting_the_same_bytes_again_writes_nothing_new(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put(Attachment(PNG, name="one.png"))
    (path,) = files_in(tmp_path)
    first = path.stat()
    store.put(Attachment(PNG, name="two.png"))
    assert files_in(tmp_path) == [path]
    assert path.stat().st_ino == first.st_ino


def test_a_store_makes_its_folder_when_it_first_needs_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "data" / "attachments")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AttachmentError, match="not in the attachment store"):
        store.read(AttachmentBlock("a" * 64, "text/plain", 1))
    assert list(tmp_path.iterdir()) == []
    assert store.read(store.put(Attachment(b"x"))) == b"x"


@pytest.mark.usefixtures("open_umask")
def test_files_and_folders_are_for_the_owner_alone(tmp_path: Path) -> None:
    FolderStore(tmp_path / "store").put(Attachment(PNG))
    made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    folders = [path for path in made if path.is_dir()]
    files = [path for path in made if path.is_file()]
    assert files
    assert {mode(path) for path in folders} == {0o700}
    assert {mode(path) for path in files} == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_the_folders_above_the_store_that_it_makes_are_for_the_owner_alone_too(tmp_path: Path) -> None:
    FolderStore(tmp_path / "data" / "attachments").put(Attachment(PNG))
    assert mode(tmp_path / "data") == 0o700


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_others_may_read_is_private_once_it_is_stored(tmp_path: Path) -> None:
    source = tmp_path / "public.txt"
    source.write_bytes(b"x")
    source.chmod(0o666)
    FolderStore(tmp_path / "store").put(Attachment.from_path(source))
    (stored,) = files_in(tmp_path / "store")
    assert mode(stored) == 0o600


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    refused = [
        Attachment(b"MZ", "image/png", "trick.png"),
        Attachment(bytes(100)),
        Attachment.from_path(tmp_path / "missing"),
    ]
    for attachment in refused:
        with pytest.raises(AttachmentError):
            store.put(attachment, max_bytes=99)
    assert files_in(tmp_path) == []


def test_a_large_file_is_never_held_whole(tmp_path: Path) -> None:
    size = 50 * 1024 * 1024
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(size)
    store = FolderStore(tmp_path / "store")
    tracemalloc.start()
    try:
        reference = store.put(Attachment.from_path(path), max_bytes=size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reference.size == size
    assert peak < 5 * 1024 * 1024
    (stored,) = files_in(tmp_path / "store")
    assert stored.stat().st_size == size
