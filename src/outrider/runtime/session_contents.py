"""What a session holds: its conversation, settings, usage and tools, and the questions that it asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import AnsweredError
from outrider.log.entries import Asked, Decided, SessionSettings
from outrider.runtime.goal import as_goal
from outrider.runtime.session_base import SessionBase

if TYPE_CHECKING:
    from outrider.conversation.history import History
    from outrider.conversation.store import AttachmentStore
    from outrider.log.questions import Question
    from outrider.providers.base import Provider, ToolSpec
    from outrider.runtime.context import ContextUsage
    from outrider.runtime.steering import QueuedMessage
    from outrider.runtime.waits import Person
    from outrider.tools.server_tool import ServerTool
    from outrider.tools.tool import Tool


class SessionContents(SessionBase):
    """The contents of a session. `Session` adds the verbs."""

    def _repr_html_(self) -> str:
        """Return the session as a notebook shows it."""
        from outrider.conversation.html import conversation_html, plain, usage_line

        head = f"<p><b>{plain(self._agent.name)}</b> with {plain(self.provider.name)}, "
        head += f"{len(self.messages)} messages, {usage_line(self.total_usage)}</p>"
        return head + conversation_html(self.messages, self.store)

    @property
    def id(self) -> str:
        """The id of the session, in its log if it has one."""
        return self._record.id

    @property
    def history(self) -> History:
        """The conversation with its sendable form."""
        return self._record.history

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list."""
        return self.history.messages

    @property
    def is_unfinished(self) -> bool:
        """Whether `run` without a prompt has work to do: calls to run, or results or queued messages to answer."""
        return self._record.is_unfinished

    @property
    def open_run(self) -> tuple[int, Usage] | None:
        """The turns and the own usage of a run that was killed or waits: `run()` counts on from them."""
        run = self._record.state.run
        return (run.turns, run.usage) if run and run.status in ("", "waiting") else None

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """The messages that wait to be delivered, the oldest first; see `steer`."""
        return self._record.steering.queued

    @property
    def usage(self) -> Usage:
        """The usage of all requests of this session, without those of its sub-agents."""
        return self._record.state.usage + self._record.unstored_usage

    @property
    def total_usage(self) -> Usage:
        """The usage of this session and its sub-agents."""
        return self.usage + self._children.usage

    @property
    def context(self) -> ContextUsage:
        """How much of the model's context window the next request takes, and what takes it. Needs no network."""
        return self._loop.compactor.usage()

    @property
    def provider(self) -> Provider:
        """The provider of the agent's model."""
        return self._loop.model.provider

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the agent, and those of MCP servers that have joined."""
        return tuple(self._loop.model.tools.offered.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them: those of the agent, of servers, and Recall."""
        return self._loop.model.tools.specs

    @property
    def server_tools(self) -> tuple[ServerTool, ...]:
        """The tools that the model's API runs."""
        return self._loop.model.server_tools

    @property
    def store(self) -> AttachmentStore:
        """The store that holds the files of the conversation."""
        return self._record.store

    # Settings in the log

    def rename(self, title: str) -> None:
        """Set the title of the session in its log. Raises LogError."""
        self._record.rename(title)

    def annotate(self, *, owner: str | None = None, metadata: Mapping[str, str] | None = None) -> None:
        """Set the owner of the session in its log, or its metadata, all of it. Raises LogError."""
        from outrider.log.session_filter import labels  # few sessions have any

        self._record.change_settings(labels(owner, metadata))

    @property
    def goal(self) -> str:
        """The command that has to succeed before a run of the session is done; empty if there is none."""
        return self._record.state.settings.goal or ""

    def set_goal(self, command: str) -> None:
        """Set the goal of the runs from now on, or end it with "". The run under way takes it up. Raises LogError."""
        if command or self.goal:
            self._record.change_settings(SessionSettings(goal=as_goal(command) if command else ""))

    def store_mode(self, mode: str) -> None:
        """Store the permission mode in the log, for when the session is resumed. Raises LogError."""
        self._record.change_settings(SessionSettings(mode=mode))

    # Questions

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the session waits for: questions that `answer` or `log.answer` answers."""
        return self._waits.questions()

    @property
    def is_asking(self) -> bool:
        """Whether others may answer a question of the session or of one of its sub-agents."""
        return bool(self._record.journal.shown)

    async def answer(self, id: str, answer: Any, *, by: str = "") -> None:
        """Answer a question for which the session waits: Allow(), Deny("…"), a choice, a text, a mapping, a result.

        The first answer counts, wherever it is given. The next `run()` goes on with it. Raises AnsweredError, and
        ValidationError if the question cannot be answered so.
        """
        asked = self._record.state.questions.get(id)
        if asked is None or not asked.waits:
            waiting = ", ".join(each.id for each in self._waits.open) or "none"
            raise AnsweredError(f"the session does not wait for the question {id[:40]!r}; questions: {waiting}")
        await self._record.journal.answer(asked, answer, by or getattr(answer, "by", "") or "a program")

    def attend(self, person: Person) -> None:
        """Let a person who is there be asked, from now on. Without one, calls that have to ask wait."""
        self._change_environment(person=person)

    def has_open_call(self, call_id: str) -> bool:
        """Return whether a call of the newest reply has no result yet."""
        return any(call.id == call_id for call in self._record.state.open_calls)

    def same_question(self, asked: Asked) -> Asked | None:
        """Return the question that waits already, if it is the same one about the same call."""
        waiting = self._record.state.questions.values() if asked.waits else ()
        new = asked.call_id, asked.question, asked.waits
        return next((each for each in waiting if (each.call_id, each.question, each.waits) == new), None)

    def note(self, entry: Asked | Decided) -> None:
        """Keep a question, or how it was decided, in the log. It is on disk before what follows from it."""
        self._record.write(entry)
