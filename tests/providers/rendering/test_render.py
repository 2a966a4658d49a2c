"""Where the files of a message go: into the result, after all results, into words, or into a note. None is dropped."""

from __future__ import annotations

import binascii
import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message, ProviderState, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.catalogue.capabilities import Capabilities, Placement
from outrider.providers.rendering.encoding import encode_items
from outrider.providers.rendering.message_parts import FAILED, Caption, File, Part, UserMessage, family_of
from outrider.providers.rendering.render import MOVED, NO_OUTPUT, Renderer
from outrider.providers.rendering.wire_names import safe_id
from tests.conversations import BINARY, CSV, GONE, JPEG, PDF, PDF_BYTES, PNG, PNG_BYTES, STORE, WAV, result
from tests.providers.rendering.test_documents import scan

ASKING = Message.assistant(ToolUseBlock("c1", "read", {}), ToolUseBlock("c2", "look", {}))
EVERYTHING = Capabilities(image="native", pdf="native", text_file="native", audio="native")
PLACEMENTS = st.sampled_from(["native", "moved", "text", "no"])
FILES = st.sampled_from([PNG, JPEG, PDF, CSV, WAV, BINARY, GONE])


def render(
    can: Capabilities, *blocks: ToolResultBlock | AttachmentBlock | str, store: MemoryStore = STORE
) -> UserMessage:
    return Renderer(can, store).user(Message.user(*blocks), ASKING)


def stored(data: bytes, mime_type: str, name: str) -> tuple[AttachmentBlock, MemoryStore]:
    store = MemoryStore()
    return store.put(Attachment(data, mime_type, name)), store


def names(parts: tuple[Part, ...]) -> list[str]:
    return [part.name for part in parts if isinstance(part, File)]


def words(parts: tuple[Part, ...]) -> str:
    return "\n".join(part for part in parts if isinstance(part, str))


def test_a_result_knows_its_tool_and_its_words() -> None:
    user = render(EVERYTHING, result("c1", "one", "two"), result("c2", "no", failed=True), "And now?")
    first, second = user.results
    assert (first.call_id, first.tool, first.text, first.is_error) == ("c1", "read", "one\ntwo", False)
    assert (second.tool, second.flagged_text, second.is_error) == ("look", f"{FAILED}\nno", True)
    assert (user.moved, user.content) == ((), ("And now?",))


def test_a_result_without_anything_says_so() -> None:
    assert render(EVERYTHING, result("c1")).results[0].parts == (NO_OUTPUT,)


def test_native_files_stay_in_their_place_among_the_words() -> None:
    (only,) = render(EVERYTHING, result("c1", "before", PNG, "between", PDF, CSV, WAV)).results
    kinds = [part if isinstance(part, str) else part.family for part in only.parts]
    assert kinds == [
        "before",
        "chart.png (a red square):",
        "image",
        "between",
        "report.pdf:",
        "pdf",
        "riders.csv:",
        "text",
        "memo.wav:",
        "audio",
    ]


def test_files_that_move_are_named_where_they_were_and_labelled_where_they_go() -> None:
    user = render(Capabilities(image="moved", pdf="moved"), result("c1", "See:", PNG), result("c2", PDF, PNG), "Well?")
    assert [each.text for each in user.results] == [
        "See:\n[chart.png is shown after the tool results]",
        "[report.pdf is shown after the tool results]\n[chart.png is shown after the tool results]",
    ]
    assert names(user.moved) == ["chart.png", "report.pdf", "chart.png"]
    assert [part for part in user.moved if isinstance(part, str)] == [
        MOVED,
        "chart.png (a red square), from read (call c1):",
        "report.pdf, from look (call c2):",
        "chart.png (a red square), from look (call c2):",
    ]
    assert user.content == ("Well?",)


def test_files_for_a_model_that_takes_none_are_read_to_it_or_named() -> None:
    user = render(Capabilities(), result("c1", PNG, PDF, CSV, WAV, BINARY, GONE))
    (only,) = user.results
    assert only.files == user.moved == ()
    assert "[chart.png (image/png, 77 bytes) cannot be shown: this model does not take such files; " in only.text
    assert "; it is described as: a red square]" in only.text
    assert "Text of report.pdf:\n[page 1]\nThird quarter" in only.text
    assert "riders.csv:\ntown,riders\nZürich,42" in only.text
    assert "[memo.wav (audio/wav, 144 bytes) cannot be shown: this model does not take such files]" in only.text
    assert "[blob.bin (application/octet-stream, 256 bytes) cannot be shown: " in only.text
    assert "[gone.png (image/png, 12 bytes) cannot be shown: " in only.text


def test_people_are_told_what_to_do_about_a_model_that_sees_and_is_not_known() -> None:
    (notice,) = Renderer(Capabilities(), STORE).user(Message.user(PNG), None).notices
    assert "chart.png" in notice
    assert "OUTRIDER_CAPABILITIES" in notice


PROFILES = st.builds(Capabilities, image=PLACEMENTS, pdf=PLACEMENTS, text_file=PLACEMENTS, audio=PLACEMENTS)


@given(PROFILES, st.lists(FILES, max_size=4), st.lists(FILES, max_size=4))
def test_no_file_is_lost_whatever_the_model_takes(
    can: Capabilities, here: list[AttachmentBlock], there: list[AttachmentBlock]
) -> None:
    user = render(can, result("c1", *here), result("c2", *there), *there)
    for attachments, each in ((here, user.results[0]), (there, user.results[1])):
        for file in attachments:
            assert file.label in [*names(each.parts), *names(user.moved)] or file.label in each.text
    for file in there:
        assert file.label in names(user.content) or file.label in words(user.content)
    places = {"image": can.image, "pdf": can.pdf, "text": can.text_file, "audio": can.audio}
    assert all(places[part.family] == "moved" for part in user.moved if isinstance(part, File))
    assert not any(isinstance(part, File) and part.family == "other" for part in user.content)


def test_a_file_of_the_user_s_own_is_shown_wherever_the_model_sees_such_files() -> None:
    for placement in ("native", "moved"):
        label, part = render(Capabilities(image=placement), PNG).content
        assert label == "chart.png (a red square):"
        assert isinstance(part, File)
        assert (part.mime_type, part.name, part.family) == ("image/png", "chart.png", "image")


def test_a_picture_that_is_too_large_arrives_smaller_and_one_of_an_odd_kind_converted() -> None:
    output = io.BytesIO()
    Image.new("RGB", (300, 300)).save(output, "BMP")
    block, store = stored(output.getvalue(), "image/bmp", "big.bmp")
    can = Capabilities(image="native", pixels=100)
    (part,) = Renderer(can, store).user(Message.user(result("c1", block)), ASKING).results[0].files
    assert (part.mime_type, part.name) == ("image/png", "big.bmp")


def test_a_damaged_picture_becomes_a_note() -> None:
    block, store = stored(PNG_BYTES[:40], "image/png", "half.png")
    (only,) = render(EVERYTHING, result("c1", "See:", block), store=store).results
    assert only.text == "See:\n[half.png (image/png, 40 bytes) cannot be shown: it is not a picture that can be read]"


@pytest.mark.parametrize("limit", [{"pdf_pages": 1}, {"pdf_bytes": 1000}])
def test_a_pdf_over_a_limit_is_sent_as_text(limit: dict[str, int]) -> None:
    can = msgspec.structs.replace(EVERYTHING, **limit)
    (only,) = render(can, result("c1", PDF)).results
    assert only.files == ()
    assert only.text.startswith("Text of report.pdf:\n[page 1]\n")


def test_the_size_of_a_pdf_is_measured_as_it_is_encoded() -> None:
    encoded = (len(PDF_BYTES) + 2) // 3 * 4
    for limit, same in ((encoded, True), (encoded - 1, False)):
        (only,) = render(Capabilities(pdf="native", pdf_bytes=limit), result("c1", PDF)).results
        sent = [binascii.a2b_base64(file.data) for file in only.files]
        assert (sent == [PDF_BYTES]) is same


@pytest.mark.parametrize("image", ["native", "moved"])
def test_a_scan_becomes_pictures_of_its_pages_where_pictures_go(image: Placement) -> None:
    block, store = stored(scan(2), "application/pdf", "scan.pdf")
    user = render(Capabilities(image=image), result("c1", block), store=store)
    pages = user.moved if image == "moved" else user.results[0].parts
    assert names(pages) == ["scan.pdf, page 1", "scan.pdf, page 2"]
    assert "Pages of scan.pdf:" in user.results[0].text
    origin = ", from read (call c1):" if image == "moved" else ":"
    assert [f"scan.pdf, page {number}{origin}" in pages for number in (1, 2)] == [True, True]


def test_a_long_scan_says_how_many_pages_are_not_shown() -> None:
    block, store = stored(scan(23), "application/pdf", "scan.pdf")
    (only,) = render(Capabilities(image="native"), result("c1", block), store=store).results
    assert len(only.files) == 20
    assert only.text.startswith("First pages of scan.pdf, of 23:\nscan.pdf, page 1:\nscan.pdf, page 2:")


def test_the_pages_of_a_scan_keep_the_limits_of_pictures() -> None:
    block, store = stored(scan(1, 2000, 2000), "application/pdf", "scan.pdf")
    can = Capabilities(image="native", pixels=300)
    (page,) = render(can, result("c1", block), store=store).results[0].files
    assert max(Image.open(io.BytesIO(binascii.a2b_base64(page.data))).size) <= 300


def test_a_scan_for_a_model_that_sees_nothing_is_a_note() -> None:
    block, store = stored(scan(2), "application/pdf", "scan.pdf")
    (only,) = render(Capabilities(), result("c1", block), store=store).results
    assert only.text.startswith("[scan.pdf (application/pdf, ")
    assert only.text.endswith(" cannot be shown: this model does not take such files]")


@pytest.mark.parametrize("placement", ["native", "moved", "text"])
def test_an_empty_text_file_makes_no_empty_document(placement: Placement) -> None:
    block, store = stored(b" \n", "text/plain", "empty.txt")
    user = render(Capabilities(text_file=placement), result("c1", block), store=store)
    assert user.results[0].files == user.moved == ()
    assert "empty.txt" in user.results[0].text


def test_text_that_is_not_utf_8_is_read_as_well_as_it_can_be() -> None:
    block, store = stored("Zürich".encode("latin-1"), "text/plain", "old.txt")
    assert "Zürich" in render(Capabilities(), result("c1", block), store=store).results[0].text


def test_a_text_over_the_api_s_limit_keeps_its_head_and_tail_and_says_so() -> None:
    user = render(Capabilities(text_characters=8), result("c1", "0123456789abcdef"), "0123456789abcdef")
    expected = "012345\n[8 of 16 characters left out: this API takes no more]\nef"
    assert (user.results[0].text, user.content) == (expected, (expected,))


def test_a_text_file_keeps_the_api_s_limit_as_well() -> None:
    block, store = stored(b"0123456789" * 1000, "text/plain", "long.txt")
    (only,) = render(Capabilities(text_characters=2000), result("c1", block), store=store).results
    assert "left out here" in only.text
    assert len(only.text) < 2300


@pytest.mark.parametrize(
    ("mime_type", "family"),
    [
        ("image/png", "image"),
        ("image/svg+xml", "text"),
        ("application/pdf", "pdf"),
        ("text/markdown", "text"),
        ("application/json", "text"),
        ("audio/mpeg", "audio"),
        ("video/mp4", "video"),
        ("application/zip", "other"),
    ],
)
def test_kinds_of_files(mime_type: str, family: str) -> None:
    assert family_of(mime_type) == family


@given(st.text(min_size=1, max_size=100), st.text(min_size=1, max_size=100), st.integers(20, 64))
def test_ids_are_made_safe_each_in_its_own_way(one: str, other: str, longest: int) -> None:
    safe = safe_id(one, longest)
    assert 0 < len(safe) <= longest
    assert set(safe) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert safe == safe_id(one, longest)
    assert (safe == safe_id(other, longest)) is (one == other)


@given(st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True))
def test_an_id_that_every_api_takes_stays_as_it_is(call_id: str) -> None:
    assert safe_id(call_id) == call_id


def test_state_is_replayed_only_to_whom_it_came_from() -> None:
    state = ProviderState("gemini", "gemini-3-pro", {"id": "1"}, "proxy.test")
    model = Gemini("gemini-3-pro", base_url="https://proxy.test")
    assert model.own_data(state) == {"id": "1"}
    assert model.own_data(None) == {}
    assert Gemini("gemini-3-pro").own_data(state) == {}
    assert Gemini("gemini-3-flash", base_url="https://proxy.test").own_data(state) == {}
    assert OpenAIChat("gemini-3-pro", base_url="https://proxy.test").own_data(state) == {}


def test_a_picture_is_encoded_as_a_data_url_or_bare() -> None:
    file = File("image", "image/png", Caption("a.png"), b"aGk=")
    assert encode_items([file.base64, file.data_url]).json == b'"aGk=","data:image/png;base64,aGk="'
