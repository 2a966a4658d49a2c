"""A server that refuses pictures is asked again without them, once; what else it refuses stays refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from outrider import Agent, Attachment, Session
from outrider.errors import RequestRefusedError
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.refusals import file_fault
from outrider.providers.transport.http import Body, ErrorResponse
from outrider.runtime.events import Event, Notice
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer, Status, Step
from tests.providers.rendering.test_labels import leaves
from tests.providers.rendering.test_too_many_files import picture
from tests.streams import Answer, stream_of

NO_VISION = "Invalid content type. image_url is only supported by certain models."
BAD_PICTURE = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
ANSWER = Answer("All is well.")


def refusal(said: str, status: int = 400) -> Status:
    return Status(status, body=msgspec.json.encode({"error": {"message": said, "type": "invalid_request_error"}}))


class Talk:
    """A session with a server, what its observers saw, and what the server got."""

    def __init__(self, model: ApiProvider) -> None:
        self.model = model
        self.events: list[Event] = []
        self.session = Session(Agent(model=model), observer=self.events.append)

    async def says(self, *prompt: Any) -> str:
        async with asyncio.timeout(20):
            return (await self.session.run(list(prompt))).status

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


def shot(number: int) -> Attachment:
    return Attachment(picture(number), "image/png", f"p{number}.png", f"picture {number}")


def pictures_in(body: Any) -> int:
    """How many strings of a request are base64 of a PNG."""
    return sum("iVBORw0KGgo" in leaf for leaf in leaves(body))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (404, "No endpoints found that support image input"),
        (400, "Model does not support images. Please use a model that does."),
        (400, "Image inputs are not supported by this model"),
        (400, "Image input is not supported for this model"),
        (400, "This model doesn't support the image content block that you provided."),
        (400, "meta-llama/Llama-3.1-8B-Instruct is not a multimodal model"),
        (400, "At most 0 image(s) may be provided in one request."),
        (400, "messages[1].content must be a string"),
        (422, "messages.1.content: Input should be a valid string"),
        (422, "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"),
        (400, "Image input modality is not enabled for models/gemma-3-1b-it"),
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (400, "this model is missing data required for image input"),
        (415, "the model has no vision: images are not accepted"),
    ],
)
def test_what_servers_say_when_a_model_takes_no_pictures(status: int, said: str) -> None:
    assert file_fault(status, said, ["image"]) == ("image", "model")


@pytest.mark.parametrize(
    "said",
    [
        BAD_PICTURE,
        "Could not process image",
        "You uploaded an unsupported image. Please make sure your image has one of the following formats: ['png']",
        "messages.0.content.1.image.source.media_type: Input should be 'image/jpeg', 'image/png'",
        "Image type image/tiff: this format is not supported",
        "Invalid image data: failed to decode",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "Too many images provided. This model supports up to 5 images",
    ],
)
def test_what_they_say_when_one_picture_is_at_fault(said: str) -> None:
    assert file_fault(400, said, ["image"]) == ("image", "file")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "max_tokens: 64000 > 32000, which is the maximum allowed"),
        (400, "Invalid schema for function 'generate_image': 'array' is not valid"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "tools are not supported by this model"),
        (404, "model: imagine-4 not found"),
        (401, "image input is not supported"),
        (429, "too many images"),
        (500, "Internal server error while reading the image"),
        (None, "image input is not supported"),
    ],
)
def test_what_is_about_something_else(status: int | None, said: str) -> None:
    assert file_fault(status, said, ["image"]) is None


@each(*ONE_EACH)
async def test_a_model_that_takes_no_pictures_is_told_of_them_from_then_on(case: Case) -> None:
    async with ModelServer([refusal(NO_VISION), ANSWER, ANSWER]) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Look.", shot(1)) == "done"
        assert await talk.says("And this?", shot(2)) == "done"
    assert [pictures_in(request.json) for request in server.requests] == [1, 0, 0]
    assert "p1.png (image/png" in server.requests[1].body.decode()
    assert "picture 2" in server.requests[2].body.decode()
    (told,) = [notice for notice in talk.notices if "retrying without images" in notice]
    assert NO_VISION in told


async def test_another_session_with_the_same_model_knows_it_as_well() -> None:
    case = ONE_EACH[2]
    async with ModelServer([refusal(NO_VISION), ANSWER, ANSWER]) as server:
        model = case.adapter(server.url, key="k")
        assert await Talk(model).says("Look.", shot(1)) == "done"
        assert await Talk(model).says("Look.", shot(2)) == "done"
    assert [pictures_in(request.json) for request in server.requests] == [1, 0, 0]


class RefusingBoth(OpenAIChat):
    """Refuses two requests with pictures at the same moment, and answers those without."""

    both: asyncio.Barrier

    async def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        if pictures_in(msgspec.json.decode(bytes(body))):
            await self.both.wait()
            raise self.explain(ErrorResponse(400, {}, refusal(NO_VISION).body), key)
        yield b"".join(stream_of("openai-chat", ANSWER))


async def test_two_sessions_that_are_refused_at_the_same_time_both_go_on() -> None:
    model = RefusingBoth("gpt-5.6", api_key="k")
    model.both = asyncio.Barrier(2)
    ends = await asyncio.gather(Talk(model).says("Look.", shot(1)), Talk(model).says("Look.", shot(2)))
    assert ends == ["done", "done"]


@each(*ONE_EACH)
async def test_a_picture_that_is_refused_is_left_out_and_the_others_stay(case: Case) -> None:
    async with ModelServer([ANSWER, refusal(BAD_PICTURE), ANSWER, ANSWER]) as server:
        talk = Talk(case.adapter(server.url, key="k"))
        assert await talk.says("Look.", shot(1)) == "done"
        assert await talk.says("And this?", shot(2)) == "done"
        assert await talk.says("And this?", shot(3)) == "done"
    assert [pictures_in(request.json) for request in server.requests] == [1, 2, 1, 2]
    assert f"it is left out: {talk.model.label} refused it" in server.requests[3].body.decode()
    assert any("without the newest images" in notice for notice in talk.notices)


STEPS: list[tuple[list[Step], int]] = [
    ([refusal("prompt is too long: 210000 tokens > 200000 maximum")] * 5, 1),
    ([refusal(NO_VISION)] * 9, 2),
    ([refusal(BAD_PICTURE)] * 9, 3),
    ([refusal(BAD_PICTURE), refusal(NO_VISION), *[refusal(NO_VISION)] * 7], 3),
]


@pytest.mark.parametrize(("steps", "requests"), STEPS)
async def test_it_does_not_go_on_for_ever_and_the_error_stands(steps: list[Step], requests: int) -> None:
    async with ModelServer([ANSWER, ANSWER, ANSWER, *steps]) as server:
        talk = Talk(ONE_EACH[2].adapter(server.url, key="k"))
        for number in range(3):
            assert await talk.says("Look.", shot(number)) == "done"
        known = talk.model.capabilities
        assert await talk.says("And this?", shot(3)) == "error"
        assert len(server.requests) == 3 + requests
        server.steps = [ANSWER]
        assert await talk.says("Never mind.") == "done"
    assert talk.model.capabilities == known
    assert pictures_in(server.requests[-1].json) == 4, "what did not help was taken back"


async def test_a_refusal_without_any_picture_in_the_request_is_not_about_pictures() -> None:
    async with ModelServer([refusal(NO_VISION), ANSWER]) as server:
        model = ONE_EACH[2].adapter(server.url, key="k")
        with pytest.raises(RequestRefusedError, match="only supported by certain models"):
            await Session(Agent(model=model)).think("Hello")
    assert len(server.requests) == 1


async def test_a_wrong_name_with_vision_in_it_is_no_refusal_of_pictures() -> None:
    async with ModelServer([refusal("the model llama-vision does not exist", 404), ANSWER]) as server:
        talk = Talk(CompatibleServer("llama-vision", server.url))
        assert await talk.says("Look.", shot(1)) == "error"
    assert len(server.requests) == 1


async def test_a_compatible_server_that_serves_it_without_vision_teaches_that() -> None:
    """A name that is known to see, on a server that has only the words of it, which fails instead of refusing."""
    said = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    async with ModelServer([refusal(said, 500), ANSWER]) as server:
        talk = Talk(CompatibleServer("gemma-3-27b-it", server.url))
        assert await talk.says("Look.", shot(1)) == "done"
    assert [pictures_in(request.json) for request in server.requests] == [1, 0]
