"""Content blocks in both directions: input from an editor becomes a prompt or a clear error."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.acp.content import MAX_IMAGE_BYTES, file_content, path_of, to_prompt
from outrider.acp.schema import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import AttachmentError
from tests.acp.test_prompting import PNG

texts = st.text(st.characters(exclude_categories=["Cs"]))
kinds = st.sampled_from(["image/png", "image/jpeg", "text/plain", "application/pdf", "", "nonsense", "a/b;c=d"])
data = st.one_of(st.binary().map(lambda raw: base64.b64encode(raw).decode()), texts)
uris = st.one_of(
    texts,
    texts.map(lambda rest: f"file://{rest}"),
    texts.map(lambda rest: f"file:///{rest}.png"),
    st.sampled_from(["file://[", "file:///%00.png", "file:///%ff", "http://[::1", "file:", "//", "FILE:///a", ""]),
)
blocks = st.one_of(
    st.builds(TextContent, texts),
    st.builds(ImageContent, data, kinds),
    st.builds(AudioContent, data, kinds),
    st.builds(ResourceLink, texts, uris),
    st.builds(EmbeddedResource, st.builds(Resource, uris, st.none() | texts, st.none() | data, st.none() | kinds)),
)


@given(st.lists(blocks, max_size=5))
def test_whatever_is_sent_becomes_a_prompt_or_an_error_in_words(sent: list[ContentBlock]) -> None:
    try:
        parts = to_prompt(sent)
    except AttachmentError:
        assert any(isinstance(block, AudioContent | ImageContent | EmbeddedResource) for block in sent)
    else:
        assert all(isinstance(part, str | Attachment) for part in parts)
        assert not any(isinstance(block, AudioContent) for block in sent)
        if all(isinstance(block, TextContent) for block in sent):
            assert parts == [block.text for block in sent if isinstance(block, TextContent) and block.text]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_the_path_of_a_file_survives_its_address(name: str) -> None:
    path = Path("/somewhere") / name
    assert path_of(path.as_uri()) == path


@pytest.mark.parametrize("uri", ["https://example.org/a.png", "zed:///agent/thread/1", "file://host/a", "a.png", ""])
def test_what_is_not_on_this_machine_has_no_path(uri: str) -> None:
    assert path_of(uri) is None


@given(st.binary(max_size=200))
def test_a_picture_goes_out_as_it_came_in(rest: bytes) -> None:
    picture = PNG + rest
    (attachment,) = to_prompt([ImageContent(base64.b64encode(picture).decode(), "image/png")])
    assert isinstance(attachment, Attachment)
    store = MemoryStore()
    shown = file_content(store.put(attachment), store.read)
    assert isinstance(shown, ImageContent)
    assert base64.b64decode(shown.data) == picture


def test_what_is_no_picture_is_too_large_or_is_gone_is_named() -> None:
    def gone(file: AttachmentBlock) -> bytes:
        raise AttachmentError("its bytes are not in the store")

    shown = [
        file_content(AttachmentBlock("0" * 64, "application/pdf", 2_000_000, name="report.pdf"), gone),
        file_content(AttachmentBlock("0" * 64, "image/png", MAX_IMAGE_BYTES + 1, name="map.png"), gone),
        file_content(AttachmentBlock("0" * 64, "image/png", 10, name="lost.png"), gone),
    ]
    said = [block.text for block in shown if isinstance(block, TextContent)]
    assert len(said) == 3
    assert "report.pdf: application/pdf, 1.9 MiB" in said[0]
    assert "map.png" in said[1]
    assert "its bytes are not in the store" in said[2]


def test_a_link_to_a_picture_is_followed_and_one_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    words, attachment = to_prompt([ResourceLink("a", (tmp_path / "a.png").as_uri())])
    assert isinstance(attachment, Attachment)
    assert words == f"[a]({tmp_path}/a.png)"
    for name in ("missing.png", "x" * 5_000 + ".png", "folder.png"):
        (tmp_path / "folder.png").mkdir(exist_ok=True)
        assert to_prompt([ResourceLink("b", (tmp_path / name).as_uri())]) == [f"[b]({tmp_path}/{name})"]
