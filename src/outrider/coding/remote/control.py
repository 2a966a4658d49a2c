"""The remote control of a session: other processes answer its questions, talk to it, stop it and watch it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.front_end import Front, FrontEnd
from outrider.coding.permissions.question import Answer, Ask, Mode, Question
from outrider.coding.remote.live import LiveSocket
from outrider.coding.remote.questions import RemoteQuestions, meaning_of, permission_body
from outrider.coding.toolbox import EXIT_PLAN
from outrider.conversation.messages import Message, ToolResultBlock
from outrider.conversation.user_messages import is_from_user
from outrider.errors import ConversationError, LogError
from outrider.log.entries import Asked
from outrider.log.inbox_tables import InboxView
from outrider.log.log import Log
from outrider.log.questions import Answer as GivenAnswer
from outrider.log.questions import (
    Body,
    ChoiceQuestion,
    ElicitationQuestion,
    PermissionQuestion,
    PlanQuestion,
    Say,
    SetGoal,
    Signal,
    stored,
)
from outrider.runtime.events import Event, MessageAdded, RunFinished, SteeringQueued
from outrider.runtime.exclusive_task import running_loop
from outrider.runtime.goal import goal_message
from outrider.runtime.session import Session
from outrider.tools.approval import Defer

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


class RemoteControl:
    """Serves the session that is open in a front end. It starts with the event loop."""

    def __init__(self, front: Front, folder: Path) -> None:
        self.questions = RemoteQuestions(front, folder)
        self._front = front
        self._open: tuple[Log, Session] | None = None
        """The session to serve, until it is served."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live: LiveSocket | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._is_running = False
        self._said: list[tuple[str, asyncio.Future[None]]] = []
        """Messages of other processes that the front end has. Each future ends when it was taken."""
        self._saying: set[asyncio.Task[None]] = set()

    def attach(self, log: Log, session: Session) -> None:
        """Serve a session from now on, instead of another; without an event loop, from its first run on."""
        self.detach()
        self._open = log, session
        self.questions.session = session
        self._is_running = False
        with suppress(RuntimeError):  # there is no event loop yet
            self._serve(asyncio.get_running_loop())

    def begin_run(self) -> None:
        """Serve the session, unless it is served already, and look often for messages until the run ends."""
        self._is_running = True
        self._serve(asyncio.get_running_loop())

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._open is None:
            return
        (log, session), self._open = self._open, None
        self._loop = loop
        self._live = LiveSocket(log.live_socket(session.id), session.id)
        self._live.start()  # first: a session that others know of can be watched
        try:
            inbox = log.inbox.listen(session.id)
        except LogError:  # the session works without it
            self._live.close()
            self._live = None
            return
        inbox.on_unsigned = self._front.answered
        self.questions.inbox = inbox
        self._stop_watching = inbox.watch(self._look, lambda: self._is_running or self.questions.is_waiting)
        session.observe(self._observe)

    def detach(self) -> None:
        """Serve no session any more. Safe from any thread."""
        self._open = None
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if not loop.is_running() or running_loop() is loop:
            self._end()
            return
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.questions.inbox = self.questions.session = None
        if self._stop_watching:
            self._stop_watching()
            self._stop_watching = None
        if self._live:
            self._live.close()
            self._live = None
        if self._taking:
            self._taking.cancel()
        for _, taken in self._said:
            taken.cancel()
        self._said.clear()

    def _observe(self, event: Event) -> None:
        if self._said and (message := _stored_message(event)):
            # A command or a mention changes the text. Then the oldest message is meant: they are stored in order.
            said = next((each for each in self._said if each[0] in message.text), self._said[0])
            self._said.remove(said)
            if not said[1].done():
                said[1].set_result(None)
        if isinstance(event, RunFinished):
            self._is_running = False
        if self._live:
            self._live.send(event)

    def _look(self, view: InboxView) -> None:
        self.questions.look(view)
        is_taking = self._taking is not None and not self._taking.done()
        if self.questions.inbox and not is_taking and self.questions.inbox.has_signals(view):
            self._taking = asyncio.get_running_loop().create_task(self._take())

    async def _take(self) -> None:
        inbox = self.questions.inbox
        if inbox is None:
            return
        with suppress(LogError):  # the session was lost; its next write says so
            await inbox.take_signals(self._deliver)

    def _deliver(self, signal: Signal) -> asyncio.Future[None] | None:
        if isinstance(signal, SetGoal):
            if self.questions.session:
                self.questions.session.set_goal(signal.command)
            if not signal.command:
                return None
            signal = Say(goal_message(signal.command))
        if not isinstance(signal, Say):
            if signal.agent and self.questions.session:
                self._do(stop_agent(self.questions.session, signal.agent))
            elif not signal.agent:
                self._front.stop()
            return None
        # Before it is in the log, it ends with this process, and its sender must not forget it.
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._said.append((signal.text, taken))
        self._do(self._say(signal.text, taken))
        return taken

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    async def _say(self, text: str, taken: asyncio.Future[None]) -> None:
        """Let the front end handle a message. It may do so without storing it, such as a command."""
        try:
            await self._front.say(text)
        except ConversationError:  # it was too late for the front end
            taken.cancel()
        if not taken.done():
            taken.set_result(None)
        self._said = [each for each in self._said if each[1] is not taken]


async def stop_agent(session: Session, agent: str) -> None:
    """Stop a sub-agent that works in the background of a session, on behalf of the user."""
    if task := session.background.find(agent):
        await session.background.stop(task)


def _stored_message(event: Event) -> Message | None:
    """Return the message of the user that is in the log from now on."""
    if isinstance(event, SteeringQueued):
        return event.message
    if not isinstance(event, MessageAdded) or event.steering or event.message.role != "user":
        return None
    has_results = any(isinstance(block, ToolResultBlock) for block in event.message.content)
    return event.message if is_from_user(event.message) and not has_results else None


class Dialogue:
    """Asks the user. The first answer counts, wherever it is given."""

    def __init__(
        self,
        front_end: FrontEnd,
        remote: RemoteControl | None,
        folder: Path,
        *,
        mode: Callable[[], Mode],
        notify: Callable[[str], None],
    ) -> None:
        """`notify` gets a line about each question of the model before the user sees it."""
        self._front_end = front_end
        self._remote = remote
        self._folder = folder
        self._mode = mode
        self._notify = notify

    async def ask(self, question: Question) -> Answer:
        """Ask about a call. A no without words ends the run: the user says next what to do instead.

        Of a sub-agent in the background it ends that one's run alone.
        """
        assert self._front_end.ask
        self._notify(f"{question.tool}: {question.reason}")
        if self._remote is None:
            answer = await self._front_end.ask(question)
        else:
            answer = await self._remote.questions.ask(question, self._front_end.ask, self._mode())
        if answer.verdict != "no" or answer.words or question.is_for_session:
            return answer
        if question.asker and not question.in_background:  # a sub-agent would end alone, and its parent go on
            if self._front_end.remote is None:
                return answer
            self._front_end.remote.stop()
        words = "they ended this sub-agent" if question.in_background else ""
        return msgspec.structs.replace(answer, ends_run=True, words=words)

    async def ask_later(self, question: Question) -> Answer:
        """Leave a question about a call to whoever answers later."""
        self._notify(f"{question.tool}: {question.reason}")
        raise Defer(permission_body(question, self._folder, self._mode()))

    def given(self, asked: dict[str, Any], option: str, words: str) -> Ask:
        """Return a dialogue that has the answer to one question. Any other is asked."""

        async def ask(question: Question) -> Answer:
            if stored(permission_body(question, self._folder, self._mode())) != asked:
                return await (self.ask if self._front_end.ask else self.ask_later)(question)
            return meaning_of(option, words)

        return ask

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        assert self._front_end.elicit
        if self._remote is None:
            return await self._front_end.elicit(question)
        return await self._remote.questions.elicit(question, self._front_end.elicit)

    async def person(self, asked: Asked, body: Body) -> GivenAnswer:
        """Ask for a tool: what the model wants to know, or what a tool of the user asks."""
        if isinstance(body, ElicitationQuestion):
            from outrider.mcp.elicitation import Elicitation

            form = await self.elicit(Elicitation(body.server, body.message, body.schema))
            return GivenAnswer(form.action, content=form.content)
        if isinstance(body, PermissionQuestion):
            answer = await self.ask(Question(asked.call_id, body.tool, body.input, body.reason))
            return GivenAnswer(answer.verdict, answer.words)
        self._notify(f"{EXIT_PLAN if isinstance(body, PlanQuestion) else 'AskUser'}: {body.title}")
        here = self._plan(asked, body) if isinstance(body, PlanQuestion) else self._choice(asked, body)
        return await (self._remote.questions.pose(asked, here) if self._remote else here)

    async def _choice(self, asked: Asked, body: Body) -> GivenAnswer:
        assert self._front_end.choose
        assert isinstance(body, ChoiceQuestion)
        return await self._front_end.choose(asked.call_id, body)

    async def _plan(self, asked: Asked, body: PlanQuestion) -> GivenAnswer:
        assert self._front_end.ask
        question = Question(asked.call_id, EXIT_PLAN, {"plan": body.plan}, "a plan waits for an answer", is_plan=True)
        answer = await self._front_end.ask(question)
        return GivenAnswer(answer.verdict, answer.words)
