"""A server that refuses a PDF, a document or audio is asked again without it, and the session goes on."""

from __future__ import annotations

import pytest

from outrider import Attachment
from outrider.providers.catalogue.capabilities import Kind
from outrider.providers.refusals import Cause, file_fault
from outrider.runtime.events import Compacted
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PDF_BYTES
from tests.modelserver import ModelServer, Recorded, Status, Step
from tests.providers.test_refused_pictures import ANSWER, Talk, pictures_in, refusal, shot

BAD_PDF = "messages.0.content.1.pdf.source.base64.data: The PDF specified was not valid."
NO_PDF = "This model does not support file content types."
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"


def pdf(number: int) -> Attachment:
    return Attachment(PDF_BYTES + f"\n% {number}".encode(), "application/pdf", f"d{number}.pdf")


def pdfs_in(body: bytes) -> int:
    return body.count(b"JVBERi0")


@pytest.mark.parametrize(
    ("said", "kind", "cause"),
    [
        (BAD_PDF, "document", "file"),
        ("Could not process PDF", "document", "file"),
        ("The PDF specified is password protected.", "document", "file"),
        ("A maximum of 100 PDF pages may be provided.", "document", "file"),
        ("The document has no pages.", "document", "file"),
        ("Invalid file data: 'input[0].content[1].file_data'. Expected a base64-encoded data URL", "document", "file"),
        (NO_PDF, "document", "model"),
        ("Failed to deserialize: unknown variant `file`, expected `text` or `image_url`", "document", "model"),
        ("messages.1.content: Input should be a valid string", "document", "model"),
        ("No endpoints found that support file input", "document", "model"),
        ("Audio input modality is not enabled for models/gemma-3-1b-it", "audio", "model"),
        ("Invalid audio data: could not decode", "audio", "file"),
        ("The video exceeds the longest duration", "video", "file"),
    ],
)
def test_what_servers_say_of_other_files(said: str, kind: Kind, cause: Cause) -> None:
    assert file_fault(400, said, [kind]) == (kind, cause)
    assert file_fault(400, said, []) is None, "there was no such file"
    assert file_fault(401, said, [kind]) is None


@each(*ONE_EACH)
async def test_a_pdf_that_is_refused_is_sent_as_text_and_the_others_stay(case: Case) -> None:
    async with ModelServer([ANSWER, refusal(BAD_PDF), ANSWER, ANSWER]) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1)) == "done"
        assert await talk.says("And this?", pdf(2), shot(1)) == "done"
        assert await talk.says("And this?", pdf(3)) == "done"
    assert [pdfs_in(request.body) for request in server.requests] == [1, 2, 1, 2]
    assert [pictures_in(request.json) for request in server.requests] == [0, 1, 1, 1]
    assert "Text of d2.pdf" in server.requests[2].body.decode()
    assert any("retrying with the text of the newest documents" in notice for notice in talk.notices)


@each(*ONE_EACH)
async def test_older_files_that_are_at_fault_do_not_end_the_session(case: Case) -> None:
    """As when a session with many PDFs goes on with a model that takes fewer pages in a request."""

    def takes_two(request: Recorded) -> Step:
        return refusal("A maximum of 100 PDF pages may be provided.") if pdfs_in(request.body) > most else ANSWER

    most = 9
    async with ModelServer(takes_two) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        for number in range(5):
            assert await talk.says("Read.", pdf(number)) == "done"
        most = 2
        assert await talk.says("And now?") == "done"
        asked = len(server.requests)
        assert await talk.says("And now?") == "done"
        assert len(server.requests) == asked + 1, "what was refused is not sent again"
    assert "Text of d0.pdf" in server.requests[-1].body.decode()


async def test_pages_and_pictures_that_count_together_do_not_end_the_session() -> None:
    """The error of Claude, which names both, though only the PDFs are too many."""
    too_much = refusal("Too much media: 120 document pages + 1 images > 100")

    def takes_one(request: Recorded) -> Step:
        return too_much if pdfs_in(request.body) > 1 else ANSWER

    async with ModelServer(takes_one) as server:
        talk = Talk(Case("anthropic", "claude-sonnet-4-5").adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1), shot(1)) == "done"
        assert await talk.says("And this?", pdf(2), shot(2)) == "done"
        assert await talk.says("Thanks.") == "done"
    assert "Text of d2.pdf" in server.requests[-1].body.decode()


@each(*ONE_EACH)
async def test_a_model_that_takes_no_pdf_gets_its_text_from_then_on(case: Case) -> None:
    async with ModelServer([refusal(NO_PDF), ANSWER, ANSWER]) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1)) == "done"
        assert await talk.says("And this?", pdf(2)) == "done"
    assert [pdfs_in(request.body) for request in server.requests] == [1, 0, 0]
    assert "Text of d2.pdf" in server.requests[2].body.decode()
    assert any("retrying without documents" in notice for notice in talk.notices)


@pytest.mark.parametrize("said", ["Invalid audio data", "Audio input modality is not enabled for this model"])
async def test_audio_that_is_refused_is_left_out(said: str) -> None:
    async with ModelServer([refusal(said), ANSWER]) as server:
        talk = Talk(Case("gemini", "gemini-3-pro").adapter(server.url, key="k"))
        assert await talk.says("Listen.", Attachment(WAV, "audio/wav", "a.wav")) == "done"
    assert [b"UklGR" in request.body for request in server.requests] == [True, False]
    assert "a.wav (audio/wav" in server.requests[1].body.decode()


@each(*ONE_EACH)
async def test_an_error_that_stays_is_raised_and_the_pdf_comes_back(case: Case) -> None:
    async with ModelServer([*[refusal(BAD_PDF)] * 2, ANSWER]) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1)) == "error"
        assert await talk.says("Never mind.") == "done"
    assert [pdfs_in(request.body) for request in server.requests] == [1, 0, 1]


class SmallGate:
    """Answers as a proxy does that takes requests up to a size."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sizes: list[int] = []

    def __call__(self, request: Recorded) -> Step:
        self.sizes.append(len(request.body))
        return Status(413, body=b"<html>nginx</html>") if len(request.body) > self.most else ANSWER


def large(number: int) -> Attachment:
    """A PDF of 100 kB in a request."""
    return Attachment(PDF_BYTES + b"\n%" + bytes([48 + number]) * 75_000, "application/pdf", f"d{number}.pdf")


@each(*ONE_EACH)
async def test_a_server_that_takes_less_than_its_api_gets_the_newest_files(case: Case) -> None:
    gate = SmallGate(250_000)
    async with ModelServer(gate) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Read.", large(1), large(2), large(3)) == "done"
        assert len(gate.sizes) == 2, "one was refused"
        assert await talk.says("And this?", large(4)) == "done"
        assert pdfs_in(server.requests[-1].body) == 2, "the newest, and one before"
        assert len(gate.sizes) == 3, "what was left out is not sent again"
    assert "takes smaller requests" in server.requests[-1].body.decode()
    assert [notice for notice in talk.notices if "retrying with fewer files" in notice]


@each(*ONE_EACH)
async def test_a_pdf_that_is_longer_than_the_window_is_sent_as_an_excerpt(case: Case) -> None:
    def takes_text(request: Recorded) -> Step:
        too_long = refusal("prompt is too long: 310000 tokens > 200000 maximum")
        return too_long if pdfs_in(request.body) else ANSWER

    async with ModelServer(takes_text) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Read.", large(1)) == "done"
        assert await talk.says("And now?") == "done"
    assert [pdfs_in(request.body) for request in server.requests] == [1, 0, 0]
    assert "Text of d1.pdf" in server.requests[-1].body.decode()
    assert not any(isinstance(event, Compacted) for event in talk.events)


async def test_a_long_conversation_with_a_pdf_is_compacted() -> None:
    def takes_little(request: Recorded) -> Step:
        return ANSWER if len(request.body) < 150_000 else refusal("prompt is too long: 310000 tokens > 200000 maximum")

    async with ModelServer(takes_little) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1)) == "done"
        assert [await talk.says(f"{number} " * 20_000) for number in range(5)] == ["done"] * 5
    assert any(isinstance(event, Compacted) for event in talk.events)
    assert not [notice for notice in talk.notices if "text of documents" in notice]


@pytest.mark.parametrize("count", [9, 40])
async def test_a_server_that_takes_no_file_is_asked_without_any(count: int) -> None:
    gate = SmallGate(50_000)
    async with ModelServer(gate) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Read.", *(large(number % 10) for number in range(count))) == "done"
        assert pdfs_in(server.requests[-1].body) == 0
        assert len(gate.sizes) <= 6


async def test_a_conversation_that_grows_behind_a_small_gate_is_compacted() -> None:
    gate = SmallGate(120_000)
    async with ModelServer(gate) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Read.", large(1), large(2)) == "done"
        assert [await talk.says(f"{number} " * 20_000) for number in range(4)] == ["done"] * 4
    assert any(isinstance(event, Compacted) for event in talk.events)


async def test_one_refusal_for_its_size_does_not_stay() -> None:
    async with ModelServer([Status(413), ANSWER]) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Hello") == "error"
        assert await talk.says("Hello again") == "done"
    assert len(server.requests) == 2


async def test_a_rate_of_tokens_is_no_size() -> None:
    said = "Request too large for model on tokens per minute (TPM): Limit 12000, Requested 14137"
    async with ModelServer([ANSWER, refusal(said, 413), ANSWER]) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("x " * 9_000, large(1)) == "done"
        assert await talk.says("And now?") == "error"
    assert len(server.requests) == 2, "neither without its file nor compacted"


async def test_files_come_back_if_the_size_was_not_the_reason() -> None:
    async with ModelServer([Status(413)] * 9) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Read.", large(1), large(2)) == "error"
        server.steps = [ANSWER]
        assert await talk.says("And now?") == "done"
    assert pdfs_in(server.requests[-1].body) == 2


async def test_another_kind_that_is_refused_loses_its_newest_only() -> None:
    bad_picture = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"
    async with ModelServer([ANSWER, refusal(bad_picture), refusal(BAD_PDF), ANSWER]) as server:
        talk = Talk(ONE_EACH[0].adapter(server.url, key="k"))
        assert await talk.says("Read.", pdf(1), shot(1)) == "done"
        assert await talk.says("And this?", pdf(2), shot(2)) == "done"
    assert [pdfs_in(request.body) for request in server.requests] == [1, 2, 2, 1]
    assert [pictures_in(request.json) for request in server.requests] == [1, 2, 1, 1]
