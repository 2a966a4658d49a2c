"""The kept bytes of a conversation are those that rendering it anew would give, whatever was replaced meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Agent, Attachment, Limits, Session
from outrider.conversation.messages import Message
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.rendering.encoding import LARGE, Base64String, Rendered, encode_items
from outrider.providers.rendering.shown_files import ShownFile
from outrider.providers.rendering.transcript import CHEAP_TO_RENDER, Rendering, Transcript
from outrider.providers.transport.http import Pieces
from tests.providers.canned import CannedTransport, delta, events

POOL = [Message.user(str(number)) for number in range(6)] + [Message.user("3")]


def rendered(message: Message, previous: Message | None, text_bytes: int = 0) -> Rendered:
    """Items that depend on the message and on the one before it; every third message has none."""
    number = int(message.text)
    items = [f'"{number}.{item} after {previous.text if previous else None}"' for item in range(number % 3)]
    return Rendered(",".join(items).encode())


class Counting:
    """Renders, and remembers what."""

    def __init__(self) -> None:
        self.seen: list[Message] = []

    def __call__(self, message: Message, previous: Message | None, text_bytes: int) -> Rendered:
        self.seen.append(message)
        return rendered(message, previous)


def naive(messages: Sequence[Message]) -> bytes:
    parts = [rendered(each, messages[index - 1] if index else None).json for index, each in enumerate(messages)]
    return b",".join(filter(None, parts))


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=8), max_size=8))
def test_any_sequence_of_conversations_gives_the_naive_join_of_each(conversations: list[list[Message]]) -> None:
    transcript = Transcript()
    for messages in conversations:
        transcript.update(messages, rendered)
        assert transcript.enclosed(b"[", b"]") == b"[" + naive(messages) + b"]"
        assert transcript.size == len(naive(messages))


@given(st.lists(st.sampled_from(POOL), max_size=8), st.sampled_from([b"", b'"extra"']))
def test_items_for_one_request_alone_are_not_kept(messages: list[Message], extra: bytes) -> None:
    transcript = Transcript()
    transcript.update(messages, rendered)
    expected = b",".join(filter(None, (naive(messages), extra)))
    assert transcript.enclosed(b"<", b">", extra) == b"<" + expected + b">"
    assert transcript.enclosed(b"<", b">") == b"<" + naive(messages) + b">"


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=6), max_size=6), st.sampled_from([b"", b'"extra"']))
def test_large_files_stand_in_their_places_whatever_was_replaced(
    conversations: list[list[Message]], extra: bytes
) -> None:
    def with_files(message: Message, previous: Message | None, text_bytes: int) -> Rendered:
        """As many files as the number says, all in one item, each after its own name."""
        number = int(message.text)
        item = {f"file{each}": Base64String(f"{number}{each}".encode() * LARGE, b"data:") for each in range(number % 4)}
        before.append(text_bytes)
        shown = tuple(ShownFile(message, position, frozenset({"image"}), 1) for position in range(len(item)))
        return encode_items([item], shown, number, (f"{number} rendered",))

    def whole(messages: Sequence[Message]) -> bytes:
        items = [
            {f"file{each}": "data:" + f"{int(message.text)}{each}" * LARGE for each in range(int(message.text) % 4)}
            for message in messages
        ]
        return b",".join([*map(msgspec.json.encode, items), *([extra] if extra else [])])

    before: list[int] = []
    transcript = Transcript()
    for messages in conversations:
        before.clear()
        notices = transcript.update(messages, with_files)
        new = messages[len(messages) - len(notices) :]
        assert notices == [f"{message.text} rendered" for message in new]
        assert before == [
            sum(int(each.text) for each in messages[: len(messages) - left]) for left in range(len(new), 0, -1)
        ]
        body = transcript.enclosed(b"[", b"]", extra)
        assert bytes(body) == b"[" + whole(messages) + b"]"
        assert len(body) == len(bytes(body))
        if isinstance(body, Pieces):
            assert b"".join(body.slices()) == bytes(body) == b"".join(body.slices()), "it can be sent again"
        numbers = [int(message.text) for message in messages]
        assert (transcript.images, transcript.text_bytes) == (sum(each % 4 for each in numbers), sum(numbers))


def test_bytes_in_a_text_are_not_taken_for_the_place_of_a_file() -> None:
    items = [{"text": "\0 and \x01", "data": Base64String(b"A" * LARGE), "more": "\0"}]
    transcript = Transcript()
    transcript.update([POOL[0]], lambda *_: encode_items(items))
    sent = msgspec.json.decode(bytes(transcript.enclosed(b"[", b"]")))
    assert sent == [{"text": "\0 and \x01", "data": "A" * LARGE, "more": "\0"}]


def test_what_is_no_json_and_no_file_has_no_place_in_a_request() -> None:
    with pytest.raises(TypeError, match="object cannot be part of a request"):
        encode_items([{"value": object()}])


def test_each_message_is_rendered_once_as_the_conversation_grows() -> None:
    transcript, counting = Transcript(), Counting()
    for length in range(1, len(POOL) + 1):
        transcript.update(POOL[:length], counting)
    assert list(map(id, counting.seen)) == list(map(id, POOL))


def test_a_message_that_was_replaced_is_rendered_again_with_all_after_it() -> None:
    transcript = Transcript()
    transcript.update(POOL[:5], rendered)
    changed = [*POOL[:2], Message.user("5"), *POOL[3:5]]
    transcript.update(changed, rendered)
    assert transcript.enclosed(b"", b"") == naive(changed)


def test_an_equal_message_that_is_another_object_is_rendered_again() -> None:
    # Identity is what is compared: looking into every message would cost more than it saves.
    transcript, counting = Transcript(), Counting()
    for _ in range(2):
        transcript.update([Message.user("4")], counting)
    assert [message.text for message in counting.seen] == ["4", "4"]


def test_a_failure_in_the_middle_leaves_what_was_rendered_and_no_half_message() -> None:
    def failing(message: Message, previous: Message | None, text_bytes: int) -> Rendered:
        if message is POOL[4]:
            raise ValueError("no")
        return rendered(message, previous)

    transcript = Transcript()
    with pytest.raises(ValueError):
        transcript.update(POOL[:6], failing)
    assert transcript.enclosed(b"", b"") == naive(POOL[:4])
    transcript.update(POOL[:6], rendered)
    assert transcript.enclosed(b"", b"") == naive(POOL[:6])


# A conversation that waits for a person


class Chatting:
    """A session whose model answers at once; what was sent, and how many bytes of it are kept."""

    def __init__(self, *said: str) -> None:
        self.model = OpenAIChat("m", base_url="http://127.0.0.1:9/v1")
        self.transport = CannedTransport([events(*(delta(content=each) for each in said), delta("stop"))])
        self.model._transport = self.transport  # type: ignore[assignment]
        self.session = Session(Agent(model=self.model))

    @property
    def kept(self) -> int:
        return sum(
            each.transcript.size for each in self.session._loop.model.memory.values() if isinstance(each, Rendering)
        )


async def test_rendered_bytes_are_dropped_while_the_user_is_to_answer() -> None:
    chat = Chatting("Yes. " * 1000)
    for number in range(3):
        await chat.session.run(f"Question {number}?")
        assert chat.kept == 0
    asked = [message["content"] for message in chat.transport.body["messages"] if message["role"] == "user"]
    assert asked == ["Question 0?", "Question 1?", "Question 2?"]


async def test_what_takes_long_to_render_is_kept() -> None:
    with_file = Chatting("Nice.")
    await with_file.session.run(["What is this?", Attachment(b"words", "text/plain", "a.txt")])
    assert with_file.kept
    large = Chatting("Well.")
    await large.session.run("x" * (CHEAP_TO_RENDER[1] + 1))
    assert large.kept
    long = Chatting("Well.")
    for number in range(CHEAP_TO_RENDER[0] // 2 + 1):
        await long.session.run(f"And {number}?")
    assert long.kept


async def test_calls_that_are_still_words_let_go_of_nothing() -> None:
    chat = Chatting('{"tool": "look", "arguments": {}}')
    chat.model.capabilities = msgspec.structs.replace(chat.model.capabilities, tools=False)

    def look() -> str:
        """Look."""
        return "seen"

    chat.session = Session(Agent(model=chat.model, tools=[look], limits=Limits(max_turns=2)))
    await chat.session.run("Look.")
    assert chat.kept


async def test_a_reply_that_calls_tools_lets_go_of_nothing() -> None:
    chat = Chatting("I will look.")
    begun = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
    chat.transport.chunks = [events(delta(tool_calls=[begun]), delta("tool_calls"))]
    await chat.session.think("Look.")
    assert chat.kept
