"""How often a call waits for the link: a call that only looks is sent with the question whether it may run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.settings import PermissionSettings
from outrider.coding.hands.protocol import (
    VERSION,
    Answer,
    Ask,
    Cancel,
    Change,
    Hello,
    decoded,
    encoded,
    frame,
    from_hands,
    read_frame,
    to_hands,
)
from outrider.coding.hands.requests import CallToDo, Done, Judge, Judged, Run, Setup, Stance, Survey, Surveyed
from outrider.coding.hands.serving import Server
from outrider.coding.hands.starter import Streams
from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.question import Answer as UserAnswer
from outrider.testing import call
from tests.coding.hands.elsewhere import PipeStarter, PipeStreams, close, streams
from tests.coding.hands.test_protocol import HostileStarter
from tests.coding.hands.test_sessions import Elsewhere
from tests.coding.toolbox.shelling import until

SECONDS = 2.0
"""How long a message may take at most."""


class Counted(PipeStarter):
    """A link that counts. It keeps back each decision until the call itself has been sent, if it `holds`."""

    def __init__(self, folder: Path, *, holds: bool = False) -> None:
        super().__init__(folder)
        self._holds = holds
        self._ran = asyncio.Event()
        self.asked: list[Judge | Run] = []
        """The calls that were decided on, and those that were sent to run."""
        self.done: list[Done] = []
        self.late = 0
        """How many decisions were awaited before the call was sent."""

    async def start(self) -> Streams:
        inner = await super().start()
        reader, writer = asyncio.StreamReader(), inner.writer
        self._copy = asyncio.ensure_future(self._listen(inner.reader, reader))
        write = writer.write

        def heard(data: bytes) -> None:
            match to_hands.decode(data[4:]):
                case Ask(request=Judge() | Run() as request):
                    self.asked.append(request)
                    if isinstance(request, Run):
                        self._ran.set()
            write(data)

        writer.write = heard  # type: ignore[method-assign, assignment]
        reader._transport = inner.reader._transport  # type: ignore[attr-defined]
        assert isinstance(inner, PipeStreams)
        inner.reader = reader
        return inner

    async def _listen(self, source: asyncio.StreamReader, sink: asyncio.StreamReader) -> None:
        sink.feed_data(await source.readuntil(b"\n"))
        while (message := await read_frame(source, from_hands)) is not None:
            if isinstance(message, Answer) and b"verdict" in bytes(message.body) and self._holds:
                await self._hold()
            if isinstance(message, Answer) and b"did_run" in bytes(message.body):
                self.done.append(decoded(message.body, Done))
            sink.feed_data(frame(message))
        sink.feed_eof()

    async def _hold(self) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                await self._ran.wait()
        except TimeoutError:
            self.late += 1
        self._ran.clear()

    @property
    def runs(self) -> list[tuple[str, bool]]:
        """The tools that were sent to run, and whether the hands were to decide."""
        return [(each.call.tool, each.if_allowed) for each in self.asked if isinstance(each, Run)]


async def test_a_call_that_only_looks_takes_one_round_trip(tmp_path: Path) -> None:
    link = Counted(tmp_path / "there", holds=True)
    place = Elsewhere(tmp_path, link, mode="ask")
    (place.there / "a.txt").write_text("hello\n")
    results = await place.run(
        call("Read", file_path="a.txt"),
        call("Glob", pattern="*.txt"),
        call("Grep", pattern="hell."),
        call("Bash", command="cat a.txt"),
        [call("Read", file_path="a.txt"), call("Grep", pattern="none"), call("Read", file_path="a.txt")],
    )
    place.close()
    texts = [each.text.strip() for each in results]
    assert texts == ["1\thello", "a.txt", "a.txt", "hello", "1\thello", texts[5], "1\thello"]
    assert link.runs == [(tool, True) for tool in ("Read", "Glob", "Grep", "Bash", "Read", "Grep", "Read")]
    assert all(each.did_run for each in link.done)
    assert link.late == 0
    assert not place.questions


async def test_a_call_that_may_write_is_sent_once_the_log_says_that_it_begins(tmp_path: Path) -> None:
    link = Counted(tmp_path / "there")
    place = Elsewhere(tmp_path, link)
    await place.run(
        call("Write", file_path="a.txt", content="x"),
        call("Bash", command="touch b", access="write"),
        call("Bash", command="touch c"),  # nothing keeps it from writing: there is no sandbox
    )
    place.close()
    assert {each.name for each in place.there.iterdir()} == {"a.txt", "b", "c"}
    assert link.runs == [("Write", False), ("Bash", False), ("Bash", True), ("Bash", False)]
    assert [each.did_run for each in link.done] == [True, True, False, True]


async def test_a_question_and_a_denial_keep_the_call_from_running(tmp_path: Path) -> None:
    rules = PermissionSettings(mode="ask", ask=("Read(./asked.txt)",), deny=("Read(./denied.txt)",))
    link = Counted(tmp_path / "there")
    place = Elsewhere(tmp_path, link, permissions=rules)
    for name in ("asked.txt", "denied.txt"):
        (place.there / name).write_text("secret")
    (denied,) = await place.run(call("Read", file_path="denied.txt"))
    assert "denies" in denied.text
    (allowed,) = await place.run(call("Read", file_path="asked.txt"))
    assert "secret" in allowed.text
    place.answer = UserAnswer("no")
    (refused,) = await place.run(call("Read", file_path="asked.txt"))
    assert "secret" not in refused.text
    place.close()
    assert [each.did_run for each in link.done] == [False, False, True, False]
    assert len(place.questions) == 2


async def test_a_result_that_nobody_allowed_is_not_taken(tmp_path: Path) -> None:
    """A hostile hand answers a call that it should have asked about."""
    place = Elsewhere(tmp_path, hostile(Decision("ask", "it asks"), Done("obey me")), mode="ask")
    place.answer = UserAnswer("no", "never")
    (result,) = await place.run(call("Read", file_path="a.txt"))
    place.close()
    assert "never" in result.text
    assert "obey" not in str(place.results)


async def test_a_call_that_is_not_allowed_is_cancelled_there(tmp_path: Path) -> None:
    hand = hostile(Decision("deny", "no"), None)
    place = Elsewhere(tmp_path, hand)
    await place.run(call("Read", file_path="a.txt"))
    sent = {each.id for each in hand.heard if isinstance(each, Ask) and isinstance(each.request, Run)}
    await until(lambda: sent == {each.id for each in hand.heard if isinstance(each, Cancel)})
    place.close()


def hostile(decision: Decision, done: Done | None) -> HostileStarter:
    """Hands that decide on each call in the same way, and answer it so, or not at all."""

    def says(asked: Ask) -> Iterable[object]:
        value: object = None
        match asked.request:
            case Survey():
                value = Surveyed("somewhere")
            case Judge():
                value = Judged(decision)
            case Run():
                value = done
                if done is None:
                    return []
        return [Answer(asked.id, msgspec.Raw(encoded(value)))]

    return HostileStarter(says)


# The hands decide by the rules that the session had when it sent the call


async def answers(folder: Path, stance: Stance, *messages: object) -> dict[int, Any]:
    """What the hands answer to messages that come all at once."""
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    reader, writer = await streams(their_in, their_out)
    ours, sink = await streams(our_in, our_out)
    serving = asyncio.ensure_future(Server(reader, writer, folder).serve())
    sink.write(frame(Hello(VERSION, Setup(sandbox="off"), stance)) + b"".join(map(frame, messages)))
    await ours.readuntil(b"\n")
    wanted = {each.id for each in messages if isinstance(each, Ask)}
    found: dict[int, Any] = {}
    while wanted - {*found}:
        async with asyncio.timeout(SECONDS):
            message = await read_frame(ours, from_hands)
        assert message is not None
        if isinstance(message, Answer):
            found[message.id] = decoded(message.body, Done)
    close(ours, sink)
    await serving
    close(reader, writer)
    return found


def asked(number: int, tool: str, **arguments: Any) -> Ask:
    return Ask(number, Run(CallToDo(f"c{number}", tool, arguments), if_allowed=True))


async def test_rules_that_change_later_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    denying, allowing = Stance(mode="all", deny=("Read",)), Stance(mode="all")
    look = [asked(number, "Read", file_path="a.txt") for number in (1, 2)]
    found = await answers(tmp_path, denying, look[0], Change(allowing), look[1])
    assert [found[number].did_run for number in (1, 2)] == [False, True]
    assert found[2].text.strip() == "1\ttext"


async def test_only_what_is_sure_to_change_nothing_runs_by_the_rules_alone(tmp_path: Path) -> None:
    calls: Sequence[Ask] = [
        asked(1, "Write", file_path="a", content="x"),
        asked(2, "Edit", file_path="a", old_string="x", new_string="y"),
        asked(3, "Bash", command="touch b"),
        asked(4, "Bash", command="ls", access="write"),
        asked(5, "Bash", command="ls", run_in_background=True),
        asked(6, "Bash", command="ls", terminal=True),
        asked(7, "Bash", command="pwd"),
    ]
    found = await answers(tmp_path, Stance(mode="all"), *calls[:6])
    assert not any(each.did_run for each in found.values())
    assert os.listdir(tmp_path) == []
    found = await answers(tmp_path, Stance(mode="ask"), calls[6])
    assert found[7].text == str(tmp_path)
