"""A question in two places at once: one answer wins, the other side hears it, and nothing stays behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.remote.questions import RemoteQuestions, changed_lines, permission_body, plan_body, shown_diff
from outrider.errors import ValidationError
from outrider.log.entries import Asked, Decided
from outrider.log.log import Log
from outrider.log.questions import Answer as GivenAnswer
from outrider.log.questions import Choice, ChoiceField, ChoiceQuestion, ElicitationQuestion
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.runtime.session import Session
from tests.lengths import only_long
from tests.log import asked, let_everything_happen, until_so

BASH = Question("call_1", "Bash", {"command": "make", "access": "write"}, "it writes", ("Bash(make)",))
EDIT = Question(
    "call_2", "Edit", {"file_path": "/work/a.py", "old_string": "a = 1", "new_string": "a = 2"}, "it writes"
)
COLOUR = ChoiceQuestion(
    questions=(ChoiceField(key="q1", text="Which colour?", choices=(Choice("red"), Choice("blue")), own_words=False),)
)
PLAN = Question("call_3", "ExitPlan", {"plan": "# Greet\n\n1. Say hello."}, "", is_plan=True)
WEB = "on the web page"


class Person:
    """Somebody before the dialogue of a front end, who answers when told to."""

    place = "in the terminal"

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Answer | ElicitationAnswer] = asyncio.Queue()
        self.asked = 0
        """Dialogues that are open."""
        self.heard: list[str] = []
        self.modes: list[Mode] = []

    async def ask(self, _: object) -> Answer:
        self.asked += 1
        try:
            answer = await self.answers.get()
        finally:
            self.asked -= 1
        assert isinstance(answer, Answer)
        return answer

    async def elicit(self, _: object) -> ElicitationAnswer:
        answer = await self.answers.get()
        assert isinstance(answer, ElicitationAnswer)
        return answer

    def answered(self, text: str) -> None:
        self.heard.append(text)

    def use_mode(self, mode: Mode) -> None:
        self.modes.append(mode)

    async def say(self, text: str) -> None:
        raise AssertionError(text)

    def stop(self) -> None:
        raise AssertionError


class Room:
    """A session with its person, and the log as another process sees it."""

    def __init__(self, folder: Path) -> None:
        self.person = Person()
        self.log, self.other = Log(folder), Log(folder)
        self.journal = self.log.create()
        self.questions = RemoteQuestions(self.person, Path("/work"))
        self.noted: list[Asked | Decided] = []
        session = SimpleNamespace(
            is_suspended=False,
            note=self.noted.append,
            has_open_call=lambda _: False,
            same_question=lambda asked: None,
        )
        self.questions.session = cast("Session", session)

    def listen(self) -> None:
        self.questions.inbox = self.log.inbox.listen(self.journal.id)
        self.questions.inbox.watch(self.questions.look, lambda: True)

    def ask(self, question: Question = BASH, mode: Mode = "ask") -> asyncio.Task[Answer]:
        if self.questions.inbox is None:
            self.listen()
        return asyncio.ensure_future(self.questions.ask(question, self.person.ask, mode))

    def choose(self, answer: asyncio.Future[GivenAnswer]) -> asyncio.Task[GivenAnswer]:
        async def here(call_id: str, body: ChoiceQuestion) -> GivenAnswer:
            assert (call_id, body) == ("call_1", COLOUR)
            return await answer

        self.listen()
        return asyncio.ensure_future(self.questions.pose(asked("call_1", COLOUR), here("call_1", COLOUR)))

    def plan(self) -> asyncio.Task[GivenAnswer]:
        async def here() -> GivenAnswer:
            answer = await self.person.ask(PLAN)
            return GivenAnswer(answer.verdict, answer.words)

        self.listen()
        body = plan_body(PLAN.input["plan"])
        return asyncio.ensure_future(self.questions.pose(asked("call_3", body), here()))

    async def asked(self) -> str:
        """The id of the question that waits elsewhere."""
        await until_so(lambda: self.other.inbox.questions())
        return self.other.inbox.questions()[0].id


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.other.close()
    room.log.close()


@pytest.mark.parametrize(
    ("given", "answer", "heard"),
    [
        (GivenAnswer("once"), Answer("once"), "Allowed on the web page."),
        (GivenAnswer("always"), Answer("always"), "Always allowed on the web page."),
        (GivenAnswer("no"), Answer("no"), "Denied on the web page."),
        (GivenAnswer("no", "use ninja"), Answer("no", "use ninja"), "Denied on the web page: use ninja"),
    ],
)
async def test_an_answer_from_elsewhere_counts_and_is_shown(
    room: Room, given: GivenAnswer, answer: Answer, heard: str
) -> None:
    asking = room.ask()
    assert room.other.inbox.answer(await room.asked(), given, WEB)
    assert await asking == answer
    assert room.person.heard == [heard]
    assert room.person.asked == 0, "the dialogue is closed"
    assert room.other.inbox.questions() == []


async def test_an_answer_here_counts_and_is_known_elsewhere(room: Room) -> None:
    asking = room.ask()
    name = await room.asked()
    room.person.answers.put_nowait(Answer("no", "not now"))
    assert await asking == Answer("no", "not now")
    assert room.person.heard == []
    assert not room.other.inbox.answer(name, GivenAnswer("once"), WEB)
    found = room.other.inbox.question(name)
    assert found
    assert (found.answer, found.answered_by) == (GivenAnswer("no", "not now"), "in the terminal")


async def test_the_log_gets_the_question_and_who_answered_it_where(room: Room) -> None:
    asking = room.ask()
    assert room.other.inbox.answer(await room.asked(), GivenAnswer("no", "use ninja"), WEB)
    await asking
    asked, decided = room.noted
    assert isinstance(asked, Asked)
    assert (asked.call_id, asked.question["kind"], asked.question["tool"]) == (BASH.call_id, "permission", "Bash")
    assert decided == Decided(False, WEB, BASH.call_id, asked.id, "no", words="use ninja")


async def test_the_log_gets_that_a_question_was_withdrawn(room: Room) -> None:
    asking = room.ask()
    await room.asked()
    asking.cancel()
    await asyncio.wait([asking])
    asked, decided = room.noted
    assert isinstance(asked, Asked)
    assert decided == Decided(False, "nobody", BASH.call_id, asked.id, "withdrawn")


async def test_all_edits_change_the_mode_wherever_they_are_allowed(room: Room) -> None:
    asking = room.ask(EDIT)
    room.other.inbox.answer(await room.asked(), GivenAnswer("edits"), WEB)
    assert await asking == Answer("once")
    assert room.person.modes == ["edits"]
    asking = room.ask(EDIT)
    room.person.answers.put_nowait(Answer("edits"))
    assert await asking == Answer("once")
    assert room.person.modes == ["edits", "edits"]


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    "answer", [Answer("go"), Answer("edits"), Answer("change", "less"), Answer("no")], ids=lambda each: each.verdict
)
async def test_a_plan_is_answered_anywhere(room: Room, answer: Answer, here: bool) -> None:
    asking = room.plan()
    name = await room.asked()
    if here:
        room.person.answers.put_nowait(answer)
    else:
        assert room.other.inbox.answer(name, GivenAnswer(answer.verdict, answer.words), WEB)
    assert await asking == GivenAnswer(answer.verdict, answer.words)
    asked, decided = room.noted
    assert isinstance(asked, Asked)
    assert (asked.question["kind"], asked.question["plan"]) == ("plan", PLAN.input["plan"])
    assert isinstance(decided, Decided)
    assert (decided.allowed, decided.answer) == (answer.verdict in ("go", "edits"), answer.verdict)


async def test_a_plan_takes_its_own_answers_and_words_only_for_a_change(room: Room) -> None:
    asking = room.plan()
    name = await room.asked()
    for given in (GivenAnswer("once"), GivenAnswer("always"), GivenAnswer("all"), GivenAnswer("go", "quickly")):
        with pytest.raises(ValidationError):
            room.other.inbox.answer(name, given, WEB)
    assert room.other.inbox.answer(name, GivenAnswer("go"), WEB)
    assert not room.other.inbox.answer(name, GivenAnswer("edits"), WEB), "the first answer counts"
    assert await asking == GivenAnswer("go")


async def test_all_edits_count_only_if_they_come_first(room: Room) -> None:
    asking = room.ask(EDIT)
    room.other.inbox.answer(await room.asked(), GivenAnswer("no"), WEB)
    room.person.answers.put_nowait(Answer("edits"))
    assert await asking == Answer("no")
    assert room.person.modes == []


async def test_options_that_the_chat_does_not_offer_are_refused(room: Room) -> None:
    asking = room.ask(EDIT, mode="edits")
    name = await room.asked()
    for option in ("edits", "always", "all"):
        with pytest.raises(ValidationError, match="is not offered; choose one of: once, no"):
            room.other.inbox.answer(name, GivenAnswer(option), WEB)
    room.other.inbox.answer(name, GivenAnswer("once"), WEB)
    assert await asking == Answer("once")


async def test_a_cancelled_turn_withdraws_its_question_and_closes_the_dialogue(room: Room) -> None:
    asking = room.ask()
    name = await room.asked()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert room.person.asked == 0
    await until_so(lambda: not room.other.inbox.questions())
    assert not room.other.inbox.answer(name, GivenAnswer("once"), WEB)


async def test_without_a_log_to_write_to_the_front_end_asks_alone(room: Room) -> None:
    asking = asyncio.ensure_future(room.questions.ask(BASH, room.person.ask, "ask"))
    room.person.answers.put_nowait(Answer("once"))
    assert await asking == Answer("once")
    room.listen()
    room.journal.close()  # taken over, or the disk is full
    asking = room.ask()
    room.person.answers.put_nowait(Answer("once"))
    assert await asking == Answer("once")


async def test_a_dialogue_that_fails_is_not_an_answer(room: Room) -> None:
    async def fail(_: object) -> Answer:
        raise RuntimeError("no screen")

    room.listen()
    with pytest.raises(RuntimeError, match="no screen"):
        await room.questions.ask(BASH, fail, "ask")
    await until_so(lambda: not room.other.inbox.questions())


async def test_a_form_can_be_filled_in_elsewhere(room: Room) -> None:
    room.listen()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    asking = asyncio.ensure_future(room.questions.elicit(Elicitation("s", "How many?", schema), room.person.elicit))
    name = await room.asked()
    (question,) = room.other.inbox.questions()
    assert isinstance(question.body, ElicitationQuestion)
    assert (question.body.server, question.body.message, question.body.schema) == ("s", "How many?", schema)
    with pytest.raises(ValidationError):
        room.other.inbox.answer(name, GivenAnswer("accept", content={"n": "x"}), WEB)
    assert room.other.inbox.answer(name, GivenAnswer("accept", content={"n": 2}), WEB)
    assert await asking == ElicitationAnswer("accept", {"n": 2})
    assert room.person.heard == ["Answered on the web page."]


async def test_a_choice_made_elsewhere_comes_first(room: Room) -> None:
    here: asyncio.Future[GivenAnswer] = asyncio.get_running_loop().create_future()
    asking = room.choose(here)
    name = await room.asked()
    assert room.other.inbox.questions()[0].body == COLOUR
    with pytest.raises(ValidationError):
        room.other.inbox.answer(name, GivenAnswer("answer", content={"q1": "pink"}), WEB)
    assert room.other.inbox.answer(name, GivenAnswer("answer", content={"q1": "blue"}), WEB)
    assert await asking == GivenAnswer("answer", content={"q1": "blue"})
    assert here.cancelled(), "the picker is closed"
    assert room.person.heard == ["Answered on the web page."]
    asked, decided = room.noted
    assert isinstance(asked, Asked)
    assert (asked.call_id, asked.question["kind"]) == ("call_1", "choice")
    assert decided == Decided(True, WEB, "call_1", asked.id, "answer", content={"q1": "blue"})


async def test_a_choice_made_here_comes_first(room: Room) -> None:
    here: asyncio.Future[GivenAnswer] = asyncio.get_running_loop().create_future()
    asking = room.choose(here)
    name = await room.asked()
    here.set_result(GivenAnswer("answer", content={"q1": "red"}))
    assert await asking == GivenAnswer("answer", content={"q1": "red"})
    assert not room.other.inbox.answer(name, GivenAnswer("decline"), WEB)
    found = room.other.inbox.question(name)
    assert found
    assert (found.answer, found.answered_by) == (await asking, "in the terminal")


async def test_a_page_of_a_server_can_be_declined_elsewhere(room: Room) -> None:
    room.listen()
    page = Elicitation("s", "Sign in", url="https://example.com/")
    asking = asyncio.ensure_future(room.questions.elicit(page, room.person.elicit))
    assert room.other.inbox.answer(await room.asked(), GivenAnswer("decline"), WEB)
    assert await asking == ElicitationAnswer("decline")


def test_a_question_carries_the_whole_call() -> None:
    body = permission_body(EDIT, Path("/work"), "ask")
    assert (body.title, body.diff, body.reason) == ("Edit(a.py)", "-a = 1\n+a = 2", "it writes")
    assert [option.id for option in body.options] == ["once", "edits", "no"]
    body = permission_body(BASH, Path("/work"), "ask")
    assert (body.access, body.diff, body.input) == ("write", "", {"command": "make", "access": "write"})
    assert [option.id for option in body.options] == ["once", "always", "no"]
    assert [option.allows for option in body.options] == [True, True, False]
    assert body.always == ("Bash(make)",)


def test_a_question_has_the_content_of_a_write_once() -> None:
    content = "".join(f"line {number}\n" for number in range(1_000))
    write = Question("c", "Write", {"file_path": "a.py", "content": content}, "it writes")
    body = permission_body(write, Path("/"), "ask")
    assert len(msgspec.json.encode(body)) < 1.5 * len(msgspec.json.encode(content))
    assert shown_diff(body).splitlines() == [f"+{line}" for line in content.splitlines()]
    edit = permission_body(EDIT, Path("/"), "ask")
    assert shown_diff(edit) == "-a = 1\n+a = 2"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [*range(15), *only_long(*range(15, 100))])
async def test_both_sides_agree_whoever_is_first(tmp_path: Path, seed: int) -> None:
    """Answers here and elsewhere, cancels, and changes of others come in any order; what is returned is what counts."""
    choose = random.Random(seed)
    room = Room(tmp_path)
    with room.log, room.other:
        for _ in range(3):
            room.person.heard.clear()
            asking = room.ask()
            name = await room.asked()
            moves = ["here", "elsewhere", "other change"] + ["cancel"] * (choose.random() < 0.3)
            choose.shuffle(moves)
            for move in moves:
                if move == "here":
                    room.person.answers.put_nowait(Answer("once"))
                elif move == "elsewhere":
                    await asyncio.to_thread(room.other.inbox.answer, name, GivenAnswer("no", "web"), WEB)
                elif move == "other change":
                    room.other.create().close()
                else:
                    asking.cancel()
                if choose.random() < 0.5:
                    await let_everything_happen()
            (outcome,) = await asyncio.gather(asking, return_exceptions=True)
            room.log._backend.writer.run(lambda _: None)  # type: ignore[attr-defined]
            while not room.person.answers.empty():
                room.person.answers.get_nowait()
            found = room.other.inbox.question(name)
            if isinstance(outcome, asyncio.CancelledError):
                assert found is None or found.answer
            else:
                assert found
                counts = Answer("once") if found.answered_by == "in the terminal" else Answer("no", "web")
                assert outcome == counts
                assert room.person.heard == ([] if outcome == Answer("once") else ["Denied on the web page: web"])
            assert room.other.inbox.questions() == []
            assert room.person.asked == 0


def test_a_long_edit_is_shown_whole_without_a_long_comparison() -> None:
    # With more such lines, difflib would take minutes.
    old = [f"{'ab'[number % 2]}{number % 90}" for number in range(4_000)]
    new = [f"{'ab'[number // 2 % 2]}{number % 89}" for number in range(4_000)]
    shown = changed_lines("Edit", {"old_string": "\n".join(old), "new_string": "\n".join(new)})
    assert shown == [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
