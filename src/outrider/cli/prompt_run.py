"""One run of `outrider -p`: load the settings, the tools and the session, then run the prompt."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.cli.interrupts import Interrupts
from outrider.cli.options import WRONG_INPUT, UsageError, resume_command, settings_from
from outrider.cli.prompt_input import Mentions, open_attachments, read_schema, read_stdin
from outrider.cli.prompt_output import PromptOutcome, PromptOutput, print_stderr, question_lines
from outrider.cli.session_lookup import find_session
from outrider.coding.commands import calls_by_name, expand_prompt, looks_like_command, unknown_command
from outrider.coding.config.loading import Loaded, load
from outrider.coding.consent.item import waiting_note
from outrider.coding.front_end import FrontEnd
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.permissions.question import Mode
from outrider.coding.system_prompt import SystemPrompt
from outrider.coding.tool_files import load_tools
from outrider.coding.toolbox import ALL_NAMES
from outrider.coding.workbench import Workbench
from outrider.conversation.attachments import Attachment
from outrider.conversation.usage import Usage
from outrider.errors import ConversationError, OutriderError
from outrider.log.entries import SessionSettings as Recorded
from outrider.log.log import Log
from outrider.log.session_id import shown_id
from outrider.providers.debugging import logger
from outrider.runtime.agent_settings import cwd_of, kept_limits
from outrider.runtime.events import Event, RunFinished, TurnStarted
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.sync import default_log
from outrider.text import clean, counted, dollars
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.log.questions import Question as LoggedQuestion
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
    from outrider.runtime.structured_output import Report


LOOK_SECONDS = 0.2
"""How often `--wait` looks for an answer."""


class PromptRun:
    """One prompt, run to its outcome."""

    def __init__(self, options: argparse.Namespace, output: PromptOutput, interrupts: Interrupts) -> None:
        self._options = options
        self._output = output
        self._interrupts = interrupts
        self._report: Report | None = None
        self._session: Session | None = None
        self._has_asked = False
        self._is_answered = asyncio.Event()
        """Set when the model begins to answer the first request, and at the end."""
        self._turns = 0
        self._usage = Usage()
        self._ended = 0, Usage()
        """The turns and the usage of the runs that have ended."""
        self._log: Log | None = None
        self._text = ""

    def run(self) -> PromptOutcome:
        """Run the prompt and return the outcome. Errors and interrupts set its status; they do not raise."""
        try:
            with ExitStack() as stack:
                return self._run_prompt(stack)
        except (KeyboardInterrupt, asyncio.CancelledError):  # the latter when the reader of our output has gone
            return self._outcome("cancelled")
        except WRONG_INPUT as error:
            return self._outcome("error", str(error), wrong_usage=True)
        except OutriderError as error:
            return self._outcome("error", str(error))
        except Exception as error:  # noqa: BLE001 - the output must end in its format, whatever happens
            logger.debug("internal error", exc_info=True)
            return self._outcome(
                "error", f"internal error: {type(error).__name__}: {error}; set OUTRIDER_DEBUG=FILE to log the details"
            )

    def _outcome(self, status: Any, error: str = "", *, wrong_usage: bool = False) -> PromptOutcome:
        report, session = self._report, self._session
        return PromptOutcome(
            status,
            self._text,
            report.data if report else None,
            session.id if session else None,
            self._turns,
            self._usage,
            error,
            has_schema=report is not None,
            has_data=bool(report and report.has_data),
            wrong_usage=wrong_usage,
        )

    def _run_prompt(self, stack: ExitStack) -> PromptOutcome:
        options = self._options
        if options.schema is not None:
            self._report = read_schema(options.schema)
        log = self._log = stack.enter_context(default_log())
        if log.warning:
            print_stderr(f"outrider: {log.warning}")
        name = find_session(log, options.resume, latest=options.latest, folder=Path(options.cwd or "."))
        recorded = log.settings(name) if name else Recorded()
        folder = Path(options.cwd or self._session_folder(recorded))
        loaded = load(folder, environment=os.environ, flags=kept_limits(recorded) | settings_from(options))
        tools = load_tools(loaded.settings.tool_files)
        files = open_attachments(options.attach, loaded.settings.limits.attachment_bytes)
        streaming = options.input_format == "stream-json"
        found = find_servers(folder, os.environ)
        front = PromptFront(lambda text: self._print_note(f"outrider: {text}"))
        bench = Workbench(
            loaded.settings,
            folder,
            tools=tools,
            servers=found.servers,
            front_end=front.front_end(later=options.ask_later, stays=options.wait),
            system_prompt=SystemPrompt(options.system_prompt, options.append_system_prompt or ""),
        )
        stack.callback(bench.close)
        names = [server.name for server in found.servers]
        parts = [*files, *self._prompt_parts(options.prompt or "", bench, names, streaming=streaming)]
        if not parts and not name and not streaming and not options.until:
            raise UsageError('the prompt is missing; give one, as in outrider -p "What is 2+2?"')
        waiting = waiting_note([*loaded.waiting, *found.waiting, *bench.extensions.waiting])
        for note in filter(None, (*found.notes, waiting)):
            self._print_note(safe_line(f"outrider: {note}"))
        _check_command(options.prompt or "", bench)
        opened = bench.open(log, name, model=options.model, effort=options.effort, observer=self._observe)
        session = self._session = stack.enter_context(opened)
        session.wait_for_servers(loaded.settings.mcp.start_seconds)
        if name and not loaded.origins["permissions.mode"].startswith("--"):
            bench.restore_mode(log, name)
        front.use(bench, session)
        self._interrupts.before_end = lambda: bench.keep_question(session)
        self._output.write_session(session.id)
        self._print_notes(loaded, recorded, bench, session)
        return self._run_session(session, bench, parts)

    def _prompt_parts(
        self, prompt: str, bench: Workbench, servers: Sequence[str], *, streaming: bool
    ) -> list[str | Attachment]:
        """Return the prompt, followed by what was piped in, and the files that the prompt mentions with an @.

        What was piped in may be anything: an @ in it has no meaning.
        """
        mentions = Mentions(prompt, bench.project.files)
        for name in mentions.missing(servers):
            self._print_note(safe_line(f"outrider: no file {name}: sent as text"))
        files = mentions.attached()
        piped = "" if streaming else read_stdin()
        if isinstance(piped, Attachment):
            return [piped, *([prompt] if prompt.strip() else []), *files]
        text = "\n\n".join(part for part in (prompt, piped) if part.strip())
        return [*([text] if text else []), *files]

    def _session_folder(self, recorded: Recorded) -> str:
        """Return the session's folder; the current one if the session is new or its folder does not exist any more."""
        if found := cwd_of(recorded):
            return found
        if recorded.cwd and recorded.cwd != clean(os.getcwd()):  # a name that is not UTF-8 is stored cleaned
            self._print_note(
                f"The folder of this session, {safe_line(recorded.cwd)}, does not exist; using the current folder."
            )
        return os.getcwd()

    def _run_session(self, session: Session, bench: Workbench, parts: list[Any]) -> PromptOutcome:
        report = self._report
        streaming = self._options.input_format == "stream-json"
        if not parts and not session.is_unfinished and not report and not streaming and not self._options.until:
            name = shown_id(session.id)
            self._print_note(
                f'Session {name} has no unfinished work. To continue it: outrider --resume {name} -p "PROMPT"'
            )
            return PromptOutcome("done", session=session.id)
        result = self._interrupts.run(self._work_and_tell(session, bench, parts))
        if result is None:
            raise UsageError("standard input has no message; write one JSON object per line, or give a prompt")
        if self._output.show_progress:
            print_stderr(_summary_line(session, result, self._options.workspace))
        outcome = self._outcome(result.status, result.error)
        return msgspec.structs.replace(
            outcome,
            text=result.text,
            stop_reason=result.stop_reason,
            citations=result.citations,
            questions=result.questions,
        )

    async def _work_and_tell(self, session: Session, bench: Workbench, parts: list[Any]) -> RunResult[Any] | None:
        """Run the prompt, and say once if there is no sandbox. Its trial would delay the first request."""
        telling = asyncio.create_task(self._tell_of_sandbox(bench))
        try:
            return await self._work(session, bench, parts)
        finally:
            self._is_answered.set()
            await telling

    async def _tell_of_sandbox(self, bench: Workbench) -> None:
        await self._is_answered.wait()
        with suppress(OSError):  # the first command raises it again
            if note := await asyncio.to_thread(lambda: bench.project.sandbox_note):
                self._print_note(safe_line(f"outrider: {note}"))

    async def _work(self, session: Session, bench: Workbench, parts: list[Any]) -> RunResult[Any] | None:
        """Run the prompt, with the resources of MCP servers that it mentions. None if the input had no message."""
        if self._options.input_format == "stream-json":
            from outrider.cli.message_lines import MessageLines, converse

            run = partial(self._run_to_the_end, session)
            return await converse(session, parts, MessageLines(), lambda said: _expanded(said, bench), run)
        return await self._run_to_the_end(session, await _expanded(parts, bench))

    async def _run_to_the_end(self, session: Session, said: Sequence[str | Attachment]) -> RunResult[Any]:
        """Run a prompt. With --wait, go on as often as a question was answered, here or elsewhere."""
        until = self._options.until if self._options.until != session.goal else None  # else it goes on
        result: RunResult[Any] = await session.run([*said] or "", output=self._report, until=until)
        while result.status == "waiting" and self._options.wait:
            for line in question_lines(result.questions):
                self._print_note(line)
            await self._answered(result.questions)
            result = await session.run(output=self._report)
        return result

    async def _answered(self, questions: Sequence[LoggedQuestion]) -> None:
        """Return once one of the questions is answered, or it is too late for it."""
        assert self._log is not None
        ids, ends = [each.id for each in questions], [each.deadline for each in questions if each.deadline]
        inbox, end = self._log.inbox, min(ends, default=inf)
        while time.time() < end:
            if await asyncio.to_thread(inbox.unanswered, ids) != {*ids}:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _observe(self, event: Event) -> None:
        if self._has_asked:
            self._is_answered.set()
        self._has_asked = self._has_asked or isinstance(event, TurnStarted)
        if isinstance(event, RunFinished):
            turns, usage = self._ended
            self._turns, self._usage = turns + event.turns, usage + event.usage
            if event.status != "waiting":  # then the next one goes on, and counts on
                self._ended = self._turns, self._usage
            self._text = event.text
        self._output.write_event(event)
        if not self._output.stdout.is_open:
            self._interrupts.stop()

    def _print_note(self, text: str) -> None:
        """Print a note on standard error, unless --quiet is set."""
        if not self._options.quiet:
            print_stderr(text)

    def _print_notes(self, loaded: Loaded, recorded: Recorded, bench: Workbench, session: Session) -> None:
        for note in loaded.notes:
            self._print_note(safe_line(f"outrider: {note}"))
        for note in bench.notes:
            self._print_note(safe_line(f"outrider: {note}"))
        if missing := _missing_tools(recorded, bench):
            names = safe_line(", ".join(missing))
            self._print_note(f"This session used tools that are not loaded ({names}); to use them, give --tools again.")


async def _expanded(parts: Sequence[str | Attachment], bench: Workbench) -> list[str | Attachment]:
    return await expand_prompt(parts, bench.prompt_commands, bench.servers)


def _missing_tools(recorded: Recorded, bench: Workbench) -> list[str]:
    """Return the tools that a session had before and has no more."""
    if not recorded.tools:
        return []
    from outrider.runtime.structured_output import TOOL

    known = {TOOL, *ALL_NAMES, *(tool.name for tool in bench.tools)}
    return [name for name in recorded.tools if name not in known]


def _check_command(prompt: str, bench: Workbench) -> None:
    """Raise UsageError for a prompt that calls a command that does not exist: a model would guess what it means."""
    is_call = prompt.startswith("/") and prompt[1:].strip() and looks_like_command(prompt)
    if is_call and not calls_by_name(prompt, bench.prompt_commands, bench.servers):
        raise UsageError(safe_line(unknown_command(prompt, bench.prompt_commands.descriptions)))


def _summary_line(session: Session, result: RunResult[Any], place: str | None) -> str:
    parts = (session.provider.name, counted(result.turns, "turn"), dollars(result.usage.cost))
    summary = " · ".join(part for part in parts if part)
    return f"[{summary} · to resume: {resume_command(session.id, place)}]"


class PromptFront:
    """Answers, messages and stops from elsewhere. There is no dialogue here. Implements `Front`."""

    place = "in the terminal"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._bench: Workbench | None = None
        self._session: Session | None = None

    def use(self, bench: Workbench, session: Session) -> None:
        self._bench, self._session = bench, session

    def front_end(self, *, later: bool, stays: bool) -> FrontEnd:
        """Return it for a workbench. MCP servers can ask only a process that stays: their questions are not stored."""
        return FrontEnd(elicit=self.elicit if stays else None, remote=self, later=later, origin="print")

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Wait until the question of a server is answered elsewhere."""
        self._note(f"A question of the MCP server {safe_line(question.server)} waits for an answer elsewhere.")
        never: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        return await never

    def answered(self, text: str) -> None:
        """Show how a question was answered."""
        self._note(safe_line(text))

    def use_mode(self, mode: Mode) -> None:
        if self._bench:
            self._bench.use_mode(mode, self._session)

    async def say(self, text: str) -> None:
        """Queue a message for the run that goes on. Raises ConversationError if it has ended."""
        try:
            if self._session:
                await self._session.steer(text)
        except ConversationError:
            raise
        except OutriderError as error:
            self._note(f"A message from elsewhere was not delivered: {error}")

    def stop(self) -> None:
        if self._session:
            self._session.cancel()
