"""Every verb takes the same kind of prompt: a text, a file, a message, a list of them, or a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import (
    Agent,
    Attachment,
    Hooks,
    Log,
    Message,
    Session,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ask,
    dumps,
    loads,
    run,
    think,
)
from outrider.conversation.prompt import messages_of, user_message
from outrider.errors import AttachmentError, ConversationError
from outrider.events import MessageAdded
from outrider.hooks import HookResult
from outrider.messages import AttachmentBlock
from outrider.runtime.event_loop import run_sync
from outrider.stores import FolderStore, MemoryStore
from outrider.testing import ScriptedModel, call
from tests.lengths import examples

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
PICTURE = Attachment(PNG, name="chart.png")
STORED = MemoryStore().put(PICTURE)
CALLED = Message.assistant(ToolUseBlock("c1", "look", {"at": "a"}))
RESULT = Message.user(ToolResultBlock("c1", (TextBlock("Seen."),)))


def look(at: str) -> str:
    "Look at something."
    return f"{at} is fine"


async def stream_of(agent: Agent, prompt: Any, store: MemoryStore) -> None:
    async for _ in agent.stream(prompt, store=store):
        pass


VERBS: dict[str, Callable[[ScriptedModel, Any, MemoryStore], object]] = {
    "think": lambda model, prompt, store: think(prompt, model=model, store=store),
    "run": lambda model, prompt, store: run(prompt, model=model, store=store),
    "ask": lambda model, prompt, store: ask(prompt, model=model, store=store),
    "Agent.think": lambda model, prompt, store: run_sync(Agent(model).think(prompt, store=store)),
    "Agent.run": lambda model, prompt, store: run_sync(Agent(model).run(prompt, store=store)),
    "Agent.ask": lambda model, prompt, store: run_sync(Agent(model).ask(prompt, store=store)),
    "Agent.stream": lambda model, prompt, store: run_sync(stream_of(Agent(model), prompt, store)),
    "Session.run": lambda model, prompt, store: run_sync(Session(Agent(model), store=store).run(prompt)),
    "Session.think": lambda model, prompt, store: run_sync(Session(Agent(model), store=store).think(prompt)),
}
PROMPTS: dict[str, tuple[Callable[[], Any], list[Message]]] = {
    "a text": (lambda: "Look", [Message.user("Look")]),
    "a file": (lambda: PICTURE, [Message.user(STORED)]),
    "texts and files": (lambda: ["Look", PICTURE, "here"], [Message.user("Look", STORED, "here")]),
    "a block": (lambda: TextBlock("Look"), [Message.user("Look")]),
    "a message": (lambda: Message.user("Look"), [Message.user("Look")]),
    "a message with a file": (lambda: Message.user("Look", PICTURE), [Message.user("Look", STORED)]),
    "a dict": (lambda: {"role": "user", "content": ["Look", PICTURE]}, [Message.user("Look", STORED)]),
    "messages": (lambda: [Message.user("Look"), Message.user("now")], [Message.user("Look", "now")]),  # sent as one
    "a conversation": (
        lambda: loads(dumps([Message.user("Hi"), Message.assistant("Hello."), Message.user("Look")])),
        [Message.user("Hi"), Message.assistant("Hello."), Message.user("Look")],
    ),
    "a conversation and a text": (
        lambda: [{"role": "user", "content": "Hi"}, Message.assistant("Hello."), "Look", PICTURE],
        [Message.user("Hi"), Message.assistant("Hello."), Message.user("Look", STORED)],
    ),
    "what is read once": (lambda: iter(["Look", PICTURE]), [Message.user("Look", STORED)]),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", PROMPTS)
def test_each_verb_takes_each_kind(verb: str, kind: str) -> None:
    prompt, sent = PROMPTS[kind]
    model, store = ScriptedModel(["Fine."]), MemoryStore()
    VERBS[verb](model, prompt(), store)
    assert list(model.requests[0].messages) == sent
    if any(isinstance(block, AttachmentBlock) for message in sent for block in message.content):
        assert store.read(STORED) == PNG


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "the prompt is an empty list; give text"),
        ([RESULT], "has a result for the call 'c1', which no message before it makes"),
        (5, "a prompt is text, an Attachment, a Message, or a list of them, not int"),
        ([Path("a.png")], "write Attachment.from_path"),
    ],
)
def test_each_verb_refuses_what_makes_no_sense(verb: str, wrong: Any, says: str) -> None:
    model = ScriptedModel(["never"])
    with pytest.raises((TypeError, ConversationError), match=says):
        VERBS[verb](model, wrong, MemoryStore())
    assert model.requests == []


ANSWERED = [Message.user("Hi"), Message.assistant("Hello.")]


@pytest.mark.parametrize("verb", VERBS)
def test_a_conversation_with_its_answer_is_done_and_cannot_be_answered_once_more(verb: str) -> None:
    model = ScriptedModel(["never"])
    if verb.endswith("think"):
        with pytest.raises(ConversationError, match="ends with the model's answer; add a prompt"):
            VERBS[verb](model, ANSWERED, MemoryStore())
    elif verb.endswith("ask"):
        assert VERBS[verb](model, ANSWERED, MemoryStore()) == "Hello."
    else:
        VERBS[verb](model, ANSWERED, MemoryStore())
    assert model.requests == []
    result = run(ANSWERED, model=model)
    assert (result.status, result.turns, result.text, result.conversation) == ("done", 0, "Hello.", ANSWERED)


async def test_a_refused_conversation_is_not_stored(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel([]))) as session:
            with pytest.raises(ConversationError, match="ends with the model's answer"):
                await session.think(ANSWERED)
        assert log.messages(session.id) == []


def test_a_conversation_that_ends_with_calls_goes_on_with_them() -> None:
    asked = [Message.user("Look"), CALLED]
    result = run(asked, [look], model=ScriptedModel(["Done."]))
    assert [message.text for message in result.conversation[:2]] == ["Look", ""]
    assert result.conversation[2].tool_results[0].text == "a is fine"
    assert (result.turns, result.text) == (1, "Done."), "replies from before the run are not turns of it"
    with pytest.raises(ConversationError, match="calls wait for results"):
        think(asked, tools=[look], model=ScriptedModel(["never"]))


def test_a_call_without_a_result_still_runs() -> None:
    two = Message.assistant(ToolUseBlock("c1", "look", {"at": "a"}), ToolUseBlock("c2", "look", {"at": "b"}))
    result = run([Message.user("Look"), two, RESULT], [look], model=ScriptedModel(["Done."]))
    answered = [each.text for message in result.conversation for each in message.tool_results]
    assert answered == ["Seen.", "b is fine"]


async def test_a_session_with_messages_takes_messages_of_the_user() -> None:
    model = ScriptedModel([call("look", at="a"), "One.", "Two."])
    session = Agent(model, tools=[look]).session([Message.user("Hi"), Message.assistant("Hello.")])
    await session.think("Look")
    (use,) = session.messages[-1].tool_calls
    result = ToolResultBlock(use.id, (TextBlock("Seen."),))
    await session.think([Message.user(result), Message.user("Well?"), "Please."])
    assert session.messages[-3:-1] == [Message.user(result, "Well?"), Message.user("Please.")]
    before = session.messages
    with pytest.raises(ConversationError, match=r"only messages of the user can follow.*agent\.session\(messages\)"):
        await session.run([Message.user("a"), Message.assistant("b"), "c"])
    with pytest.raises(ConversationError, match="no call waits for a result with the id 'c9'"):
        await session.run([Message.user(ToolResultBlock("c9", ()))])
    assert session.messages == before


async def test_a_conversation_in_a_log_is_one_commit_and_is_there_again(tmp_path: Path) -> None:
    given = [Message.user("Hi"), Message.assistant("Hello."), Message.user("Look", PICTURE)]
    seen: list[Message] = []

    def observe(event: Any) -> None:
        if isinstance(event, MessageAdded):
            seen.append(event.message)

    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel(["Fine."])), observer=observe) as session:
            result = await session.run(given)
        reopened = await Session.open(log, session.id, Agent(ScriptedModel([])))
        assert reopened.messages == session.messages == seen == [*result.conversation]
        assert reopened.store.read(STORED) == PNG
        assert reopened._record.state.run is not None
        assert (result.turns, reopened._record.state.run.turns) == (1, 1)
        reopened.close()


async def test_hooks_see_the_last_message() -> None:
    heard: list[str] = []

    async def hear(event: Any) -> HookResult:
        heard.append(event.prompt)
        return HookResult(context="Mind the gap.")

    agent = Agent(ScriptedModel(["Fine."]), hooks=Hooks(prompt_submitted=[hear]))
    result = await agent.run([Message.user("Hi"), Message.assistant("Hello."), "Look", PICTURE])
    assert heard == ["Look"]
    assert result.conversation[2].content[-1] == TextBlock("[A hook says:]\nMind the gap.")


async def test_steering_takes_messages_of_the_user() -> None:
    gate = asyncio.Event()

    async def hold() -> str:
        "Wait."
        await gate.wait()
        return "done"

    session = Agent(ScriptedModel([call("hold"), "Fine."]), tools=[hold]).session(store=MemoryStore())
    running = asyncio.create_task(session.run("Go"))
    while not session._loop.is_running or len(session.messages) < 2:
        await asyncio.sleep(0.001)
    queued = await session.steer([Message.user("Look", PICTURE), "here"])
    assert queued.message == Message.user("Look", STORED, "here")
    for wrong in ([Message.user("a"), CALLED], [RESULT]):
        with pytest.raises(ConversationError, match="only messages of the user"):
            await session.steer(wrong)
    gate.set()
    assert (await running).status == "done"
    assert queued.message in session.messages


# Messages with files


def test_a_message_is_made_of_texts_files_and_blocks(tmp_path: Path) -> None:
    message = Message.user("look", PICTURE, STORED, TextBlock("here"), "")
    assert message.text == "look\n\nhere"
    assert len(message.content) == 4
    assert "chart.png" in message._repr_html_()
    store = FolderStore(tmp_path)
    (loaded,) = loads(dumps([message], store=store), store=store)
    assert loaded == Message.user("look", STORED, STORED, TextBlock("here"))
    assert store.read(STORED) == PNG
    session = Agent("demo").session([message], store=store)
    assert session.messages == [loaded]
    with pytest.raises(AttachmentError, match="is not fetched yet; pass the message in a prompt"):
        dumps([Message.user(Attachment.from_url("https://example.com/a.png"))], store=store)
    with pytest.raises(ConversationError, match=r"chart\.png is not stored yet.*dumps\(\)"):
        dict(message)


def test_a_relative_path_in_a_message_is_in_the_folder_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    session = Agent("demo").session([Message.user(Attachment.from_path("chart.png"))], cwd=tmp_path)
    assert session.messages[0].content == (STORED,)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (5, "a message is made of texts, Attachments and blocks, not int; write str"),
        (None, "not NoneType; leave it out"),
        (PNG, r"not bytes; write Attachment\(…\)"),
        (Path("a.png"), r"write Attachment\.from_path"),
        (["a", "b"], r"not list; put \* before a list of parts"),
        (Message.user("a"), "not Message"),
        ({"type": "text", "text": "a"}, "not dict"),
    ],
)
def test_what_is_no_part_of_a_message_is_a_type_error(wrong: Any, says: str) -> None:
    for make in (Message.user, Message.assistant):
        with pytest.raises(TypeError, match=says):
            make("look", wrong)


# One function reads prompts

parts = st.text(max_size=5) | st.just(PICTURE) | st.just(STORED) | st.builds(TextBlock, st.text(min_size=1, max_size=5))
said = st.lists(parts, min_size=1, max_size=3).map(lambda each: Message.user(*each))


@given(st.lists(parts | said, min_size=1, max_size=6))
@settings(max_examples=examples(100))
def test_no_part_of_a_prompt_is_lost(prompt: list[Any]) -> None:
    def flat(items: Iterable[Any]) -> list[Any]:
        kept = [item for item in items if item != ""]
        inside = [item.content if isinstance(item, Message) else (item,) for item in kept]
        return [TextBlock(part) if isinstance(part, str) else part for each in inside for part in each]

    messages = messages_of(prompt)
    assert flat(messages) == flat(prompt)
    assert all(message.role == "user" for message in messages)
    if flat(prompt):
        assert user_message(prompt).content == tuple(flat(prompt))
