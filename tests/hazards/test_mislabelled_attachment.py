"""Hazard: a file that is not what its label, or its name, says. A model's API would refuse the whole request."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.codec import from_json, to_json
from outrider.conversation.messages import Message
from outrider.conversation.store import AttachmentStore, FolderStore, MemoryStore
from outrider.errors import AttachmentError, ConversationError

PNG = b"\x89PNG\r\n\x1a\n...."
JPEG = b"\xff\xd8\xff\xe0...."
ELF = b"\x7fELF\x02\x01\x01...."
PAGE = b"<!doctype html><title>404 Not Found</title>"
CHECKED = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AttachmentStore:
    return FolderStore(tmp_path / "store") if request.param == "folder" else MemoryStore()


@pytest.mark.parametrize("label", CHECKED)
@pytest.mark.parametrize(
    ("content", "found"),
    [(ELF, "application/x-executable"), (b"MZ\x90\0", "application/x-executable"), (PAGE, "something else"), (b"", "")],
    ids=["elf", "exe", "page", "empty"],
)
def test_a_label_that_contradicts_the_content_is_refused(
    store: AttachmentStore, label: str, content: bytes, found: str
) -> None:
    with pytest.raises(AttachmentError, match=rf"trick is labelled {label} but is {found}"):
        store.put(Attachment(content, label, "trick"))


def test_one_kind_of_picture_under_the_label_of_another_is_refused(store: AttachmentStore) -> None:
    with pytest.raises(AttachmentError, match=r"a\.png is labelled image/png but is image/jpeg"):
        store.put(Attachment(JPEG, "image/png", "a.png"))


@pytest.mark.parametrize("label", ["IMAGE/PNG", "image/png; charset=binary", " image/png ", "Image/Png;"])
def test_a_label_cannot_dodge_the_check_by_its_spelling(store: AttachmentStore, label: str) -> None:
    with pytest.raises(AttachmentError, match="labelled image/png but is application/x-executable"):
        store.put(Attachment(ELF, label, "trick"))
    assert store.put(Attachment(PNG, label)).mime_type == "image/png"


def test_a_file_on_disk_is_checked_like_bytes(store: AttachmentStore, tmp_path: Path) -> None:
    (tmp_path / "tool.png").write_bytes(ELF * 1000)
    with pytest.raises(AttachmentError, match=r"tool\.png is labelled image/png but is application/x-executable"):
        store.put(Attachment.from_path(tmp_path / "tool.png", "image/png"))


def test_what_was_refused_is_not_in_the_store(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with pytest.raises(AttachmentError):
        store.put(Attachment(ELF, "image/png"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_a_label_the_content_counts_and_not_the_name(store: AttachmentStore) -> None:
    assert store.put(Attachment(ELF, name="holiday.png")).mime_type == "application/x-executable"
    assert store.put(Attachment(JPEG, name="holiday.png")).mime_type == "image/jpeg"


@pytest.mark.parametrize("label", CHECKED)
def test_a_signature_behind_the_beginning_does_not_count(store: AttachmentStore, label: str) -> None:
    with pytest.raises(AttachmentError, match="but is something else"):
        store.put(Attachment(b" " * 20 + PNG + b"%PDF-1.7 GIF89a WEBP \xff\xd8\xff", label))


@pytest.mark.parametrize("name", ["chart.png", "scan.jpg", "a.gif", "a.webp", "q3.pdf"])
def test_an_error_page_saved_under_the_name_of_a_picture_is_not_taken_for_one(
    store: AttachmentStore, name: str
) -> None:
    assert store.put(Attachment(PAGE, name=name)).mime_type not in CHECKED


def test_what_one_store_took_without_a_label_another_takes_with_it(store: AttachmentStore) -> None:
    file = store.put(Attachment(PAGE, name="chart.png"))
    assert from_json(to_json([Message.user(file)], store), MemoryStore()) == [Message.user(file)]


def test_the_common_misspelling_of_jpeg_is_checked_as_well(store: AttachmentStore) -> None:
    with pytest.raises(AttachmentError):
        store.put(Attachment(ELF, "image/jpg", "trick.jpg"))


def saved(content: bytes, label: str) -> str:
    block = {
        "type": "attachment",
        "sha256": sha256(content),
        "mime_type": label,
        "size": len(content),
        "name": "trick.png",
        "data": base64.b64encode(content).decode(),
    }
    return json.dumps([{"role": "user", "content": [block]}])


def test_a_saved_conversation_cannot_bring_a_mislabelled_file_into_a_store(store: AttachmentStore) -> None:
    with pytest.raises((AttachmentError, ConversationError), match=r"trick\.png is labelled image/png"):
        from_json(saved(ELF, "image/png"), store)
    (block,) = from_json(saved(PNG, "image/png"), store)[0].content
    assert block.mime_type == "image/png"  # type: ignore[union-attr]


def test_a_mislabelled_file_in_a_saved_conversation_is_named_with_its_place(store: AttachmentStore) -> None:
    with pytest.raises(ConversationError, match="message 1, block 1"):
        from_json(saved(ELF, "image/png"), store)
