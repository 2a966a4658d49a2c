"""One question of `outrider -p` on its way to its outcome: settings, folder, tools and session, and then the run."""

from __future__ import annotations

import argparse
import asyncio
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.interrupts import Interrupts
from outrider.cli.last_session import find_session
from outrider.cli.options import WRONG_INPUT, UsageError, flags_of
from outrider.cli.output import Outcome, Output, say
from outrider.cli.plain import plain
from outrider.cli.prompt_input import attached, piped, report_in
from outrider.coding.config.loading import Loaded, load
from outrider.coding.tool_files import load_tools
from outrider.coding.toolbox import ALL_NAMES
from outrider.coding.workbench import Workbench
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Usage
from outrider.errors import (
    OutriderError,
)
from outrider.log.entries import SessionSettings as Recorded
from outrider.providers.debugging import logger
from outrider.runtime.agent_settings import cwd_of, kept_limits
from outrider.runtime.events import Event, RunFinished
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.structured_output import TOOL, Report, run_to_report
from outrider.sync import default_log
from outrider.text import counted, dollars


class PromptRun:
    """One question on its way to its outcome."""

    def __init__(self, options: argparse.Namespace, output: Output, interrupts: Interrupts) -> None:
        self._options = options
        self._output = output
        self._interrupts = interrupts
        self._report: Report | None = None
        self._session: Session | None = None
        self._turns = 0
        self._usage = Usage()
        self._words = ""

    def outcome(self) -> Outcome:
        """Ask, and say how it ended. Raises nothing that can be foreseen, an interrupt included."""
        try:
            with ExitStack() as stack:
                return self._asked(stack)
        except (KeyboardInterrupt, asyncio.CancelledError):  # the latter when nobody reads any more
            return self._so_far("cancelled")
        except WRONG_INPUT as error:
            return self._so_far("error", str(error), wrong_usage=True)
        except OutriderError as error:
            return self._so_far("error", str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the output ends as it should
            logger.debug("this should not have happened", exc_info=True)
            said = f"{type(error).__name__}: {error}"
            return self._so_far(
                "error", f"this should not have happened: {said}; OUTRIDER_DEBUG=FILE keeps the details"
            )

    def _so_far(self, status: Any, error: str = "", *, wrong_usage: bool = False) -> Outcome:
        report, session = self._report, self._session
        return Outcome(
            status,
            self._words,
            report.data if report else None,
            session.id if session else None,
            self._turns,
            self._usage,
            error,
            has_schema=report is not None,
            has_data=bool(report and report.has_data),
            wrong_usage=wrong_usage,
        )

    def _asked(self, stack: ExitStack) -> Outcome:
        options = self._options
        if options.schema is not None:
            self._report = report_in(options.schema)
        log = stack.enter_context(default_log())
        if log.warning:
            say(f"outrider: {log.warning}")
        name = find_session(log, options.resume, latest=options.latest, folder=Path(options.cwd or "."))
        recorded = log.settings(name) if name else Recorded()
        folder = Path(options.cwd or self._folder_of(recorded))
        loaded = load(folder, environment=os.environ, flags=kept_limits(recorded) | flags_of(options))
        tools = load_tools(loaded.settings.tool_files)
        files = attached(options.attach, loaded.settings.limits.attachment_bytes)
        words = [*files, *_said(options.prompt or "")]
        if not words and not name:
            raise UsageError('there is nothing to ask: give a prompt, as in outrider -p "What is 2+2?"')
        bench = Workbench(loaded.settings, folder, tools=tools)
        stack.callback(bench.close)
        session = bench.open(log, name, model=options.model, report=self._report, observer=self._seen)
        self._session = stack.enter_context(session)
        self._tell_notes(loaded, recorded, bench, session)
        return self._run(session, words)

    def _folder_of(self, recorded: Recorded) -> str:
        """Where the session worked; here if it is new, or if that is gone."""
        if found := cwd_of(recorded):
            return found
        if recorded.cwd:
            self._note(f"{plain(recorded.cwd)}, where this session worked, is gone: it goes on in the current folder.")
        return os.getcwd()

    def _run(self, session: Session, words: list[Any]) -> Outcome:
        report = self._report
        if not words and not session.is_unfinished and not report:
            name = session.id[:8]
            self._note(f'Nothing is left unfinished in session {name}. To go on: outrider --resume {name} -p "PROMPT"')
            return Outcome("done", session=session.id)
        work = run_to_report(session, report, words) if report else session.run(words)
        result = self._interrupts.run(work)
        if self._output.watched:
            say(_about(session, result))
        ended = self._so_far(result.status, result.error)
        return msgspec.structs.replace(ended, text=result.text, stop_reason=result.stop_reason)

    def _seen(self, event: Event) -> None:
        if isinstance(event, RunFinished):
            self._turns += event.turns
            self._usage += event.usage
            self._words = event.text
        self._output.event(event)
        if not self._output.stdout.is_open:
            self._interrupts.stop()

    def _note(self, text: str) -> None:
        """Something to know, on standard error, unless it should be quiet there."""
        if not self._options.quiet:
            say(text)

    def _tell_notes(self, loaded: Loaded, recorded: Recorded, bench: Workbench, session: Session) -> None:
        for note in loaded.notes:
            self._note(plain(f"outrider: {note}"))
        for note in bench.notes:
            self._note(plain(f"outrider: {note}"))
        if loaded.waiting:
            self._note(f"outrider: {loaded.waiting}")
        known = {TOOL, *ALL_NAMES, *(tool.name for tool in bench.tools)}
        if gone := [name for name in recorded.tools or () if name not in known]:
            names = plain(", ".join(gone))
            self._note(f"This session had tools ({names}); to go on with them, give --tools again.")
        if session.provider.name == "demo" and session.agent.model != "demo":
            self._note("No key is set: the built-in demo model answers. See outrider doctor.")


def _said(words: str) -> list[str | Attachment]:
    """What is asked: the words, and after them what is piped in."""
    more = piped()
    if isinstance(more, Attachment):
        return [more, *([words] if words.strip() else [])]
    said = "\n\n".join(part for part in (words, more) if part.strip())
    return [said] if said else []


def _about(session: Session, result: RunResult) -> str:
    parts = (session.provider.name, counted(result.turns, "turn"), dollars(result.usage.cost))
    about = " · ".join(part for part in parts if part)
    return f"[{about} · outrider --resume {session.id[:8]} goes on]"
