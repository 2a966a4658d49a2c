"""The protocol from both sides: what a hostile hand can say, and what hostile input does to the hands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.coding.hands import link as links
from outrider.coding.hands.protocol import (
    LONGEST_FRAME,
    PREAMBLE,
    VERSION,
    Answer,
    Ask,
    Chunk,
    Commands,
    CommandState,
    Failure,
    Hello,
    Progress,
    Refusal,
    Welcome,
    encoded,
    frame,
    from_hands,
    read_frame,
    to_hands,
)
from outrider.coding.hands.requests import (
    CallToDo,
    Done,
    FileInfo,
    Judged,
    Look,
    Run,
    Setup,
    SkillFound,
    SnapshotTaken,
    Stance,
    Survey,
    Surveyed,
)
from outrider.coding.hands.serving import Server
from outrider.coding.hands.tools import sound, stance_of
from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.conversation.store import MemoryStore
from outrider.errors import HandsError
from outrider.log.entries import SnapshotEntry
from outrider.testing import tool_context
from tests.coding.hands.elsewhere import PipeStarter, close, hands_of, streams
from tests.lengths import examples

Says = Callable[[Ask], Iterable[object]]


class HostileStarter(PipeStarter):
    """Hands that answer a hello, and then each request with what a test wants."""

    def __init__(self, says: Says, folder: str = "/srv/app") -> None:
        self._says, self._folder = says, folder
        self.heard: list[object] = []

    def describe(self) -> str:
        return "a hostile host"

    async def _serve(self, source: int, sink: int) -> None:
        reader, writer = await streams(source, sink)
        writer.write(PREAMBLE)
        try:
            await read_frame(reader, to_hands)
            writer.write(frame(Welcome(VERSION, self._folder)))
            while (message := await read_frame(reader, to_hands)) is not None:
                self.heard.append(message)
                if isinstance(message, Ask):
                    for said in self._says(message):
                        writer.write(said if isinstance(said, bytes) else frame(said))
                        await writer.drain()
        except (ConnectionError, HandsError):
            pass
        finally:
            close(reader, writer)


def answering(value: object) -> Says:
    return lambda asked: [Answer(asked.id, msgspec.Raw(encoded(value)))]


async def ran(says: Says, tool: str = "Bash", **arguments: Any) -> Any:
    """The result of a call in hostile hands. They are lost for good after the first time."""
    hands = hands_of(HostileStarter(says))
    hands.connection._patience = 0
    from outrider.coding.toolbox import standard_tools

    (made,) = standard_tools(hands.workspace, [tool])
    try:
        return await made.invoke(arguments, tool_context())
    finally:
        await asyncio.to_thread(hands.close)


# A hostile hand


def test_rules_for_what_runs_here_are_not_taken() -> None:
    policy = Policy(folder=Path("/x"), allow=(Rule.parse("Bash(ls)"),))
    for rules in [("WebFetch",), ("mcp__*",), ("Bash(ls)", "web_search"), ("my_tool",), ("no rule at all(",)]:
        judged = sound(Decision("ask", "r", rules, rules, rules=(*rules, "Bash(ls)")), policy)
        assert judged.always == ()
        assert judged.prefix == ()
        assert set(judged.rules) <= {"Bash(ls)"}
    assert sound(Decision("ask", "r", ("Bash(ls)", "Read(/etc/**)")), policy).always == ("Bash(ls)", "Read(/etc/**)")


def test_only_rules_for_its_tools_go_there() -> None:
    rules = tuple(map(Rule.parse, ("Bash(ls)", "WebFetch(domain:intranet.example)", "mcp__mail__*", "my_tool")))
    stance = stance_of(Policy(folder=Path("/home/me/project"), allow=rules, ask=rules, deny=rules))
    assert stance.allow == (("Bash(ls)", False),)
    assert stance.ask == stance.deny == ("Bash(ls)",)
    assert b"/home/me" not in frame(Hello(VERSION, Setup(), stance))


async def test_a_file_that_it_names_is_not_opened_here(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("local secret")
    named = FileInfo(0, name=str(secret), description=str(secret))
    for files in ([], [Chunk(1, 0, b"theirs")]):
        result = await ran(
            lambda asked, files=files: [
                *(msgspec.structs.replace(each, id=asked.id) for each in files),
                Answer(asked.id, msgspec.Raw(encoded(Done("x", files=(named,), whole=named)))),
            ],
            command="ls",
        )
        stored = [MemoryStore().put(each) for each in result.attachments]
        assert [each.size for each in stored] == [6] * len(files)
        assert "local secret" not in result.text


async def test_the_path_of_a_skill_is_not_read_here(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: a\ndescription: b\n---\nlocal secret")
    found = SkillFound("a", "b", str(tmp_path / "SKILL.md"), "there", True)

    def says(asked: Ask) -> Iterable[object]:
        value = Surveyed("x", skills=(found,)) if isinstance(asked.request, Survey) else "their text"
        return answering(value)(asked)

    hands = hands_of(HostileStarter(says))
    skill = await asyncio.to_thread(lambda: hands.skills.get("a"))
    assert skill
    assert await asyncio.to_thread(skill.text) == "their text"
    await asyncio.to_thread(hands.close)


async def test_what_it_says_about_a_project_is_bounded() -> None:
    found = Surveyed("s" * 10**6, "i" * 10**6, "k" * 10**6, notes=("\x1b[2Jn" * 10**3,) * 100)
    hands = hands_of(HostileStarter(answering(found)))
    surveyed = await asyncio.to_thread(lambda: hands.surveyed)
    assert len(encoded(surveyed)) < 2 * 10**6
    assert "\x1b" not in "".join(surveyed.notes)
    await asyncio.to_thread(hands.close)


async def test_a_snapshot_cannot_pass_for_one_of_a_folder_here() -> None:
    from outrider.coding.hands.hands import FolderElsewhere

    class NoLog:
        def snapshots(self, _: str) -> list[Any]:
            return []

    for changes, is_taken in (("0" * 64, True), ("../../etc/passwd", False)):
        taken = SnapshotTaken(SnapshotEntry("/home/me/project", changes, 1, True), ("\x1b]0;x\x07",))
        hands = hands_of(HostileStarter(answering(taken)))
        folder = FolderElsewhere(hands.connection, NoLog(), "s")
        entry = await asyncio.to_thread(folder.snapshot)
        assert bool(entry) == is_taken
        assert entry is None or not entry.folder.startswith("/")
        assert "\x1b" not in "".join(folder.take_notices())
        await asyncio.to_thread(hands.close)


@pytest.mark.parametrize(
    "said",
    [
        lambda asked: [Progress(asked.id, msgspec.Raw(encoded("x" * 10**5)))] * 100,
        lambda asked: [Chunk(asked.id, 0, b"x" * 10**5)] * 100,
        lambda asked: [Chunk(asked.id, number, b"x") for number in range(100)],
        lambda asked: [Chunk(asked.id, 5, b"x")],
        lambda asked: [Chunk(asked.id, -1, b"x")],
        lambda asked: [(LONGEST_FRAME + 1).to_bytes(4) + b"x"],
        lambda asked: [b"\xff\xff\xff\xff"],
        lambda asked: [(5).to_bytes(4) + b"hello"],
        lambda asked: [Welcome(VERSION, "/srv/app")],
    ],
)
async def test_a_flood_and_nonsense_end_the_connection(said: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_BYTES", 10**6)
    result = await ran(said, command="ls")
    assert result.is_error
    assert result.is_unknown


async def test_an_answer_of_another_type_is_an_error() -> None:
    for value in (None, "text", {"text": 5}, Judged(Decision("allow", "")), [1, 2]):
        result = await ran(answering(value), command="ls")
        assert result.is_error
        assert not result.is_unknown
    hands = hands_of(HostileStarter(answering(["file"])))
    with pytest.raises(HandsError):
        await asyncio.to_thread(hands.kinds, ["a", "b"])
    await asyncio.to_thread(hands.close)


async def test_a_folder_that_is_no_path_is_refused() -> None:
    hands = hands_of(HostileStarter(answering(None), folder="relative"))
    with pytest.raises(HandsError):
        await asyncio.to_thread(hands.open)
    await asyncio.to_thread(hands.close)


TEXTS = st.text(max_size=20)
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-5, 2**40) | TEXTS | st.binary(max_size=20), st.lists)
FILES = st.builds(FileInfo, st.integers(-2, 3), TEXTS, TEXTS, TEXTS, TEXTS)
DONE = st.builds(
    Done,
    TEXTS,
    st.booleans(),
    st.booleans(),
    VALUES,
    TEXTS,
    st.tuples(FILES),
    FILES,
    st.tuples(st.tuples(TEXTS, TEXTS)),
)
IDS = st.sampled_from([0, 1, 1, 1, 2, -1])
SAID = st.one_of(
    st.builds(Answer, IDS, VALUES.map(encoded).map(msgspec.Raw)),
    st.builds(Answer, IDS, DONE.map(encoded).map(msgspec.Raw)),
    st.builds(Failure, IDS, TEXTS, st.booleans()),
    st.builds(Progress, IDS, VALUES.map(encoded).map(msgspec.Raw)),
    st.builds(Chunk, IDS, st.integers(-1, 3), st.binary(max_size=50)),
    st.builds(Commands, st.lists(st.builds(CommandState, IDS, TEXTS, st.just("read"), st.floats(), st.booleans()))),
    st.binary(max_size=50),
)


@settings(max_examples=examples(100))
@given(st.lists(SAID, max_size=8))
def test_whatever_a_hand_says_a_call_ends_with_a_result(said: list[object]) -> None:
    last = Failure(1, "the end")
    result = asyncio.run(ran(lambda _: [*said, last, b"\xff\xff\xff\xff"], command="ls"))
    assert isinstance(result.text, str)
    for file in result.attachments:
        assert file.source == b""


# Hostile input to the hands


CALLS = st.builds(
    CallToDo, TEXTS, st.sampled_from(["Read", "Bash", "Glob", "Nothing", ""]), st.dictionaries(TEXTS, VALUES)
)
ASKED = st.one_of(
    st.builds(Ask, IDS, st.builds(Run, CALLS)),
    st.builds(Ask, IDS, st.builds(Look, st.lists(TEXTS).map(tuple))),
    st.builds(Stance).map(lambda stance: Hello(VERSION, Setup(), stance)),
    st.binary(max_size=50),
)


@settings(max_examples=examples(60))
@given(st.lists(ASKED, max_size=6), st.booleans())
def test_whatever_comes_the_hands_answer_or_end(
    tmp_path_factory: pytest.TempPathFactory, asked: list[Any], greet: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "hostile-input"
    folder.mkdir(exist_ok=True)

    async def served() -> bytes:
        (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
        reader, writer = await streams(their_in, their_out)
        hello = [frame(Hello(VERSION, Setup(sandbox="off"), Stance(mode="plan")))] if greet else []
        with os.fdopen(our_out, "wb") as sink:
            for each in (*hello, *(item if isinstance(item, bytes) else frame(item) for item in asked)):
                sink.write(each)
        with suppress(HandsError):
            await Server(reader, writer, folder).serve()
        close(reader, writer)
        with os.fdopen(our_in, "rb") as source:
            return await asyncio.to_thread(source.read)

    assert asyncio.run(served()).startswith(PREAMBLE)


@given(st.binary(max_size=200))
def test_bytes_are_messages_or_an_error(data: bytes) -> None:
    async def read() -> None:
        for decoder in (to_hands, from_hands):
            reader = asyncio.StreamReader()
            reader.feed_data(len(data).to_bytes(4) + data)
            reader.feed_eof()
            with suppress(HandsError):
                await read_frame(reader, decoder)  # type: ignore[arg-type]

    asyncio.run(read())


async def test_a_session_of_another_version_is_refused(tmp_path: Path) -> None:
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    reader, writer = await streams(their_in, their_out)
    os.write(our_out, frame(Hello(VERSION + 1, Setup(), Stance())))
    await Server(reader, writer, tmp_path).serve()
    close(reader, writer)
    os.close(our_out)
    with os.fdopen(our_in, "rb") as source:
        said = (await asyncio.to_thread(source.read)).removeprefix(PREAMBLE)
    refusal = from_hands.decode(said[4:])
    assert isinstance(refusal, Refusal)
    assert f"version {VERSION} of the protocol" in refusal.reason


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(HandsError, match="too long"):
        frame(Chunk(1, 0, b"x" * (LONGEST_FRAME + 1)))
    assert b"\xef\xbf\xbd" in frame(Failure(1, "a lone surrogate \ud800"))
