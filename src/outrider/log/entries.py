"""The entries of a session's log. The log is append-only: a correction is another entry.

An entry is stored as its kind and its fields in JSON. An unknown kind was written by a newer version: it is kept, shown
and copied, and otherwise ignored.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.providers.base import ToolSpec


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a session. Decoding ignores fields that a newer version added."""

    kind: ClassVar[str] = ""


class SessionStarted(Entry, frozen=True):
    """The first entry of every session."""

    kind: ClassVar[str] = "began"
    session: str
    version: str
    """The version of Outrider that created it."""
    forked_from: str = ""
    """For a fork, the session whose entries were copied."""
    forked_at: int = 0
    parent: str = ""
    """For a sub-agent's session, the session that started it."""


class SessionSettings(Entry, frozen=True):
    """The settings of a session. None means unchanged."""

    kind: ClassVar[str] = "settings"
    title: str | None = None
    model: str | None = None
    system: str | None = None
    tools: tuple[str, ...] | None = None
    """The names of the tools; functions cannot be stored."""
    limits: dict[str, Any] | None = None
    cwd: str | None = None
    effort: str | None = None
    """How much the model thinks. Empty for the provider's default."""
    made_title: str | None = None
    """The title that was made from the first exchange. It is derived from its entry and only kept in the summary."""
    abridged: bool | None = None
    """Whether the log has a compaction or a clearing. It is derived from these entries and only kept in the summary."""
    rewound: bool | None = None
    """Whether the log has a rewind of the conversation. Derived and kept like `abridged`."""
    mode: str | None = None
    """The permission mode that the user has chosen. It can narrow what a resumed session may do, never widen it."""
    elsewhere: int | None = None
    """The newest entry that was not written by this user: the session was imported, or comes from another machine.
    0: there is none, and all entries are chained (`log/chain.py`)."""
    seal: str | None = None
    """The signature of the values that choose where data goes and what it costs. See `Seal` in `log/key.py`."""
    owner: str | None = None
    """Whose session it is: a name that the program with the log chooses. Empty if it has no owner."""
    metadata: dict[str, str] | None = None
    """What else that program wants to know of it."""
    agent: str | None = None
    """The agent that has the conversation, once one was handed over."""
    former: str | None = None
    """The model or the agent before, if a run changed it by itself: the newest such change."""
    reason: str | None = None
    """Why that model could not answer. Empty for an agent that handed over."""
    origin: str | None = None
    """What kind of program made it: `log/session_filter.py`. It decides only which lists show the session."""
    goal: str | None = None
    """The command that must succeed before a run is done. Empty if there is none, or it has succeeded."""

    def merged(self, new: SessionSettings) -> SessionSettings:
        """Return these settings with the new values applied."""
        given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
        return msgspec.structs.replace(self, **given)

    def changes(self, new: SessionSettings) -> SessionSettings | None:
        """Return the new settings that differ from these, or None if none does."""
        different = {
            name: value
            for name in new.__struct_fields__
            if (value := getattr(new, name)) is not None and value != getattr(self, name)
        }
        if not new.effort and not self.effort:
            different.pop("effort", None)  # the default is stored only if it replaces another value
        return SessionSettings(**different) if different else None


class MessageEntry(Entry, frozen=True):
    """A message was added to the history."""

    kind: ClassVar[str] = "message"
    message: Message
    usage: Usage | None = None
    """The tokens that a reply used."""
    stop_reason: str = ""
    model: str = ""
    """The model that wrote a reply."""
    first_token: float | None = None
    """Seconds from the request to the first delta of a reply, where it was measured."""
    stop_detail: str = ""
    """What the API says about the end of a reply, such as why it refused."""


class Intent(Entry, frozen=True):
    """A call is about to run."""

    kind: ClassVar[str] = "tool_started"
    call_id: str
    name: str
    effect: str
    key: str
    """The idempotency key. It stays the same when the call runs again, so a receiver can ignore the second call."""
    input: dict[str, Any]
    is_edited: bool = False
    """Whether the approver changed the arguments: they are not those of the model's call."""


class CallResult(Entry, frozen=True):
    """The result of a call. Once every call of a reply has one, replay builds the message with the results."""

    kind: ClassVar[str] = "tool_finished"
    result: ToolResultBlock
    final: bool = False
    details: Any = None
    """Data that the tool provides for the user interface."""
    handoff: str = ""
    """The agent that goes on with the conversation."""


class AttemptFailed(Entry, frozen=True):
    """A request to the model failed, or its reply broke off."""

    kind: ClassVar[str] = "attempt_failed"
    reason: str
    attempt: int
    delay: float | None = None
    """Seconds until the next attempt; None if there was none."""
    usage: Usage | None = None
    """The tokens that the API has counted for it."""
    model: str = ""


class AttachmentStored(Entry, frozen=True):
    """A file was added to the session, which may read it from now on."""

    kind: ClassVar[str] = "attachment"
    attachment: AttachmentBlock


class RunStarted(Entry, frozen=True):
    """A run begins. Without a `RunStopped` after it, the process was killed, or the run goes on."""

    kind: ClassVar[str] = "run_started"
    limits: dict[str, Any] = {}
    """Those that differ from the defaults."""
    continues: bool = False
    """Whether it counts on from the run before it: the session of a sub-agent is one task, also after a kill."""


class RunStopped(Entry, frozen=True):
    """A run is over."""

    kind: ClassVar[str] = "run_stopped"
    status: str
    turns: int = 0
    usage: Usage = Usage()
    """The usage of the run, its sub-agents included."""
    error: str = ""
    text: str | UnsetType = UNSET
    """What the run ends with, if it is not the text of the newest reply or of the final result."""
    output: Any | UnsetType = UNSET
    """The data of the answer, if it has a schema."""


class GoalChecked(Entry, frozen=True):
    """The goal of a run was checked. If it is not reached, the next entry, of the same commit, tells the model."""

    kind: ClassVar[str] = "goal_checked"
    command: str
    """The command, or the name of a function."""
    passed: bool
    last_line: str = ""
    """The last line of its output."""
    digest: str = ""
    """Of the output of a failed check, without times: the same one means no progress."""


class RunCancelled(Entry, frozen=True):
    """Work of the session that is not a run was cancelled. Earlier versions wrote it for runs as well."""

    kind: ClassVar[str] = "cancelled"


class SubagentLinked(Entry, frozen=True):
    """A sub-agent runs a call in a session of its own."""

    kind: ClassVar[str] = "subagent"
    call_id: str
    session: str


class BackgroundTask(Entry, frozen=True):
    """A sub-agent in the background, as it is from now on. The newest ones are stored again with each reply."""

    kind: ClassVar[str] = "background"
    session: str
    """Its own session."""
    call_id: str
    name: str
    """Its profile."""
    title: str
    """Its task in a few words."""
    status: str = ""
    """How its newest run ended; empty while it works."""
    report: str = ""
    """What the model has not been told yet: how it ended, and what it says."""
    is_told: bool = False
    """Whether the model was told."""
    isolation: str = ""
    """`worktree` if it works in a git worktree of its own."""
    note: str = ""
    """What the user should know of its end: what became of its worktree."""
    tier: str = ""
    """The tier of models that its call asked for; empty for that of its profile."""
    output_schema: dict[str, Any] | None = None
    """What its answers have to satisfy, as its call said: `{}` if its profile says it, None for text."""
    structured_output: Any | UnsetType = UNSET
    """The data of its answer, until the model was told."""


class SessionRecovered(Entry, frozen=True):
    """The log was damaged, and its intact entries were recovered."""

    kind: ClassVar[str] = "recovered"
    lost: tuple[int, ...]
    """The numbers of the lost entries; at most the first hundred."""
    count: int
    """How many entries were lost, as far as is known. 0: the session's length is unknown; its end may be lost."""


class CompactionEntry(Entry, frozen=True):
    """A summary and the newest messages are sent from now on instead of all messages. The log keeps them all."""

    kind: ClassVar[str] = "compacted"
    summary: Message
    kept: int
    """How many of the messages before this entry are still sent, counted as replay yields them. Counting backwards
    keeps it valid in forks, imports and recovered logs, whose numbers differ."""
    reason: str = ""
    """`threshold`, `too_long` or `manual`."""
    tokens_before: int = 0
    """The estimated tokens of the next request, without and with the compaction."""
    tokens_after: int = 0
    usage: Usage | None = None
    """The tokens that the summary used."""
    model: str = ""
    """The model that wrote the summary. Empty if it was made without one."""


class ResultsClearedEntry(Entry, frozen=True):
    """Long results are sent as one line each from now on, except in the newest messages. The log keeps them."""

    kind: ClassVar[str] = "results_cleared"
    kept: int
    """How many of the messages before this entry keep their results. Counted like `CompactionEntry.kept`."""
    tokens: int = 0
    """The estimated tokens that it saved."""
    count: int = 0
    """How many results were cleared."""


class SnapshotEntry(Entry, frozen=True):
    """The state of the working folder: what changed since the entry before it that has the same folder."""

    kind: ClassVar[str] = "snapshot"
    folder: str
    changes: str = ""
    """The SHA-256 of the list of changed files, in the snapshot store. Empty if nothing changed."""
    count: int = 0
    """How many files changed."""
    is_whole: bool = False
    """Whether the list has all files, because there is no earlier snapshot to start from."""
    opens: bool = False
    """Whether calls that may write run from now on. What changes until the next snapshot is then their work."""
    restores: bool = False
    """Whether a rewind restores files from now on. If it was killed, the next one goes on from there."""


class RewindEntry(Entry, frozen=True):
    """The user went back to an earlier message. The log keeps what came after it."""

    kind: ClassVar[str] = "rewound"
    to: int
    """The user message that it went back to, from 1. That message and what follows it are no longer sent."""
    dropped: int = 0
    """How many of the messages before this entry are left out, counted like `CompactionEntry.kept`."""
    conversation: bool = True
    files: bool = False
    """Whether the files of the working folder were restored. The snapshot that `restores` has their former state."""
    undo: bool = False
    """Whether this takes back the newest rewind that was not taken back yet. The other fields repeat that rewind's."""


class SteeringQueued(Entry, frozen=True):
    """A message waits for the next boundary of the run. It is stored again with each reply until it is delivered."""

    kind: ClassVar[str] = "steering_queued"
    id: str
    message: Message


class SteeringWithdrawn(Entry, frozen=True):
    """A queued message was taken back."""

    kind: ClassVar[str] = "steering_withdrawn"
    id: str


class SteeringDelivered(Entry, frozen=True):
    """A queued message is delivered: the next entry, of the same commit, adds it to the history."""

    kind: ClassVar[str] = "steering_delivered"
    id: str


class TitleEntry(Entry, frozen=True):
    """A model has made the title of the session. One that a person has set wins."""

    kind: ClassVar[str] = "titled"
    title: str
    """Empty if the model gave none."""
    usage: Usage | None = None
    model: str = ""


class Requested(Entry, frozen=True):
    """What the request of the reply that follows had beside its messages. A field that is left out is as before."""

    kind: ClassVar[str] = "requested"
    system: str | UnsetType = UNSET
    tools: tuple[ToolSpec, ...] | UnsetType = UNSET
    server_tools: tuple[dict[str, Any], ...] | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET
    """Those of `ModelSettings` that are not left to the provider."""
    output_schema: dict[str, Any] | UnsetType | None = UNSET
    reminder: str | UnsetType = UNSET
    situation: str | UnsetType = UNSET

    def merged(self, new: Requested) -> Requested:
        """Return what requests have after the new entry."""
        given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not UNSET}
        return msgspec.structs.replace(self, **given)


class Asked(Entry, frozen=True):
    """A person is asked: whether a call may run, or what a server wants to know."""

    kind: ClassVar[str] = "asked"
    id: str
    call_id: str
    """The call that it is about; empty for a question of a server."""
    question: dict[str, Any]
    """The question as data, with everything that the person sees; see `log/questions.py`."""
    waits: str = ""
    """What of the call waits for the answer, also without a process: its `approval`, its `result`, or the `call`, which
    begins again with the answer. Empty if the question ends with the process that asks it."""
    session: str = ""
    """The session of the sub-agent that asks, if it is not this one."""


class Decided(Entry, frozen=True):
    """It is decided whether a call may run, or a question has its answer."""

    kind: ClassVar[str] = "decided"
    allowed: bool
    by: str
    """Who or what decided: a rule, a mode, a hook, or a person and where."""
    call_id: str = ""
    question: str = ""
    """The id of the question, if a person was asked."""
    answer: str = ""
    """The id of the option that the person chose, or why the call was denied."""
    input: dict[str, Any] | None = None
    """The arguments that the call is allowed with, if they are not those of the model."""
    words: str = ""
    """What the person said with the answer."""
    content: dict[str, Any] | None = None
    """What the person filled in or chose, or the result that came from outside."""
    at: float = 0.0
    """When the answer was given, if that was before this entry was written."""
    signature: str = ""
    """Of an answer from elsewhere: the key of the user has signed it for this question."""


class UnknownEntry(Entry, frozen=True):
    """An entry of a kind that this version does not know."""

    name: str
    body: msgspec.Raw


class Record(msgspec.Struct, frozen=True):
    """An entry with its position in the log."""

    seq: int
    time: float
    entry: Entry
