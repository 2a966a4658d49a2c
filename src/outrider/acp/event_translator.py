"""Translates session events into session updates for the editor, live and when a stored session is replayed."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.acp.call_translator import UNFINISHED, CallTranslator
from outrider.acp.subagents import Subagents
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.call_state import Status, Text
from outrider.acp.updates.engine import Engine
from outrider.coding import sentences
from outrider.conversation.user_messages import is_from_user
from outrider.runtime import events

DISCARDED = "The part of this reply that was shown is discarded."


class EventTranslator:
    """Handles the events of one session. Text goes to the sender, after a flush of the engine, to which calls go."""

    def __init__(self, engine: Engine, sender: UpdateSender, folder: Path, *, appends: bool = False) -> None:
        self._engine = engine
        self._sender = sender
        self.calls = CallTranslator(engine, folder, appends=appends)
        self.subagents = Subagents(engine, folder, appends=appends)
        self._compactions = Compactions(sender)
        self._shown = False
        """Whether a part of the current reply was sent."""

    @property
    def is_replaying(self) -> bool:
        """Whether a stored session is replayed: then the user's messages are sent, too."""
        return self.calls.is_replaying

    @is_replaying.setter
    def is_replaying(self, is_replaying: bool) -> None:
        self.calls.is_replaying = self.subagents.is_replaying = is_replaying

    def handle(self, event: events.Event) -> None:
        match event:
            case events.TextDelta(text=text):
                self._shown = True
                self._engine.flush()
                self._sender.send_text(text)
            case events.ThinkingDelta(text=text):
                self._shown = True
                self._engine.flush()
                self._sender.send_thought(text)
            case events.ToolProgress(call_id=call_id, content=content):
                self.calls.show_progress(call_id, content)
            case events.MessageAdded():
                self._on_message(event)
            case events.ReplyDiscarded(reason=reason):
                self._end_open_calls(reason)
            case events.Retrying() | events.ModelSwitched():
                self._on_retry(event)
            case events.Notice(text=text) | events.HandedOff(text=text):
                self._engine.flush()
                self._sender.send_notice(text)
            case events.RunFinished(status=status, error=error):
                if error and self._shown:  # the reply broke off; the response to the prompt has the error
                    self._sender.send_notice(DISCARDED)
                self._shown = False
                self.end("cancelled" if status == "cancelled" else "failed")
            case _:
                self._on_step(event)

    def _on_retry(self, event: events.Retrying | events.ModelSwitched) -> None:
        """Send one notice for a row of failures, and another if a part of a reply is discarded."""
        if self._shown or isinstance(event, events.ModelSwitched) or event.attempt == 2:
            self._engine.flush()
            self._sender.send_notice(f"{event.text}. {DISCARDED}" if self._shown else event.text)
        self._shown = False

    def _on_step(self, event: events.Event) -> None:
        match event:
            case events.ToolFinished():
                self._on_finished(event)
            case events.SubagentFinished():
                self.subagents.finish_in_background(event)
                self._engine.flush()
                if not self.is_replaying:
                    self._sender.send_notice(sentences.subagent_ended(event), "info")
            case events.TitleMade(title=title):
                self._sender.send_title(title)
            case events.SubagentStarted() | events.SubagentEvent():
                self._on_subagent(event)
            case events.GoalChecked(text=text):
                self._engine.flush()
                self._sender.send_notice(text, "info")
            case events.CompactionStarted() | events.Compacted() | events.ResultsCleared():
                self._engine.flush()
                self._compactions.handle(event, is_replaying=self.is_replaying)
            case _:
                self._shown = self._shown or isinstance(event, events.ToolCallDelta | events.ServerToolStarted)
                self.calls.handle(event)

    def end(self, status: Status = "failed") -> None:
        """End the turn: end every open call and send everything that is queued. The background works on."""
        self._compactions.end(status)
        self._end_open_calls(UNFINISHED, status)
        self._engine.flush()

    def _on_message(self, event: events.MessageAdded) -> None:
        message = event.message
        self._shown = False
        if message.role == "assistant":
            self._sender.send_sources(message)
            self._sender.send_pictures(message)
            self.calls.announce_all(message.tool_calls)
        elif self.is_replaying and is_from_user(message):
            if not event.steering:  # old logs have no end of a run, but the prompt that starts the next one
                self.end()
            self._engine.flush()
            self._sender.send_user_message(message)
        if event.usage and event.usage.context:
            self._sender.send_usage(event.usage.context)

    def _on_finished(self, event: events.ToolFinished) -> None:
        steps = self.subagents.finish(event.call_id, self.calls.tool_call_id(event.call_id))
        self.calls.finish(event, (Text(steps),) if steps else ())
        if isinstance(event.details, dict) and isinstance(todos := event.details.get("todos"), list):
            self._engine.flush()
            self._sender.send_plan(todos)

    def _on_subagent(self, event: events.SubagentStarted | events.SubagentEvent) -> None:
        """Show the steps of a sub-agent in the call that waits for it, and its calls as calls of their own."""
        if self.subagents.is_in_background(event):
            self.subagents.handle_in_background(event)
        elif event.call_id in self.calls:
            steps = self.subagents.handle(event, self.calls.tool_call_id(event.call_id))
            if steps:
                self.calls.change(event.call_id, (Text(steps),))

    def _end_open_calls(self, reason: str, status: Status = "failed") -> None:
        self.subagents.end(reason, status)
        self.calls.end(reason, status)
        # Those that were announced for a permission request alone.
        self._engine.end_open_calls(reason, status, but=self.subagents)


class Compactions:
    """Sends the state of each compaction. At most one runs at a time."""

    def __init__(self, sender: UpdateSender) -> None:
        self._sender = sender
        self._running = ""
        """The id of the compaction that has started."""

    def handle(
        self, event: events.CompactionStarted | events.Compacted | events.ResultsCleared, *, is_replaying: bool = False
    ) -> None:
        """Send the updates for one event. A replayed session shows its compactions, but no notices and no usage."""
        match event:
            case events.CompactionStarted(tokens=tokens):
                self._start(tokens)
            case events.Compacted():
                self._finish(event, is_replaying)
            case events.ResultsCleared():
                self._sender.send_notice(sentences.shortened(event), "info")

    def end(self, status: str) -> None:
        """End a compaction that has no summary: it failed, or was cancelled."""
        if self._running:
            self._sender.send_compaction(self._running, "cancelled" if status == "cancelled" else "failed")
            self._running = ""

    def _start(self, tokens: int) -> None:
        self.end("failed")
        if self._sender.client.takes_compactions:
            self._running = os.urandom(8).hex()  # unique in the session, also after a restart
            self._sender.send_compaction(self._running, "in_progress")
        else:
            self._sender.send_notice(sentences.compacting(tokens), "info")

    def _finish(self, event: events.Compacted, is_replaying: bool) -> None:
        if self._sender.client.takes_compactions:
            self._sender.send_compaction(self._running or os.urandom(8).hex(), "completed", event.summary)
            self._running = ""
        elif not is_replaying:
            self._sender.send_notice(sentences.shortened(event), "info")
        if not is_replaying:
            self._sender.send_usage(event.tokens_after)
