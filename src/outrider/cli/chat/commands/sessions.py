"""Commands about sessions: resume, rename, copy, rewind and leave one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Dialogue, Next, Send, Write
from outrider.cli.chat.past_messages import show_recent
from outrider.cli.chat.picker import PickerChoice, pick
from outrider.cli.styles import fit
from outrider.cli.user_programs import page
from outrider.coding import sentences
from outrider.coding.rewind_points import PARSERS, Rewind, RewindReport, beginning, preview_lines, run_rewind
from outrider.log.session_id import shown_id
from outrider.text import ago, counted
from outrider.text.visible import safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.log.rewinding import RewindPoint, RewindPreview
    from outrider.runtime.session import Session


def _choose_session(chat: CommandContext, id: str) -> Next:
    if id:
        _resume(chat, id)
        return None
    if not chat.current.log.sessions(1):
        chat.view.dim("No sessions yet.")
        return None
    return Dialogue(_pick_session(chat))


async def _pick_session(chat: CommandContext) -> None:
    from outrider.cli.chat.picker import pick_session

    if chosen := await pick_session("Resume a session", chat.current.log, chat.current.folder):
        _resume(chat, chosen)


def _resume(chat: CommandContext, id: str) -> None:
    show_recent(chat.current, chat.current.go_to(id), chat.view)
    worked_in = chat.current.log.settings(id).cwd
    if worked_in and worked_in != str(chat.current.folder):
        chat.view.note(f"This session worked in {worked_in}; it continues in {chat.current.folder}.")


def _rename(chat: CommandContext, title: str) -> None:
    if chat.current.session is None:
        chat.view.dim("There are no messages yet, so there is no session to rename.")
    elif not title:
        chat.view.problem("Give the title: /rename TITLE")
    else:
        chat.current.session.rename(title)
        chat.view.dim(f"Renamed: {safe_line(title)}")


def _continue_turn(chat: CommandContext, _: str) -> Next:
    if chat.current.session and chat.current.session.is_unfinished:
        return Send("")
    chat.view.dim(sentences.NOT_INTERRUPTED)
    return None


def _fork(chat: CommandContext, _: str) -> None:
    original = chat.current.fork()
    if original:
        chat.view.dim(f"Continuing in a copy; session {shown_id(original)} stays unchanged.")
    else:
        chat.view.dim("There is nothing to copy yet.")


def _rewind(name: str, chat: CommandContext, words: str) -> Next:
    parse, usage, _ = PARSERS[name]
    if not chat.current.session:
        chat.view.dim("There are no messages yet.")
        return None
    if wanted := parse(words):
        return Dialogue(_go_back(chat, wanted))
    chat.view.problem(usage)
    return None


def _show_tree(chat: CommandContext, id: str) -> None:
    from outrider.cli.chat.transcript_file import markdown
    from outrider.cli.session_format import tree_lines, tree_of

    session, log = chat.current.session, chat.current.log
    if session is None:
        chat.view.dim("There are no messages yet.")
    elif id:
        found = log.session(id)
        text = "".join(markdown(found.title or found.id, log.messages(found.id), session.store))
        page(text, chat.current.bench.workspace.programs)
    else:
        tree = tree_of(log, session.id)
        chat.view.write([fit(safe_line(line), chat.view.region.width) for line in tree_lines(tree)])
        if tree.children:
            chat.view.dim("/tree ID shows what a sub-agent said and did.")


def _clear(chat: CommandContext, _: str) -> None:
    chat.current.leave()
    chat.view.clear_screen()
    chat.view.dim("Your next message starts a new session.")


COMMANDS = (
    ChatCommand(
        "resume",
        "choose a session to resume, also /sessions; /resume ID resumes one",
        _choose_session,
        aliases=("sessions",),
    ),
    ChatCommand("rename", "give this session another title: /rename TITLE", _rename),
    ChatCommand("continue", sentences.COMMANDS["continue"], _continue_turn),
    ChatCommand("fork", "continue in a copy of this session", _fork),
    *(ChatCommand(name, sentences.COMMANDS[name], partial(_rewind, name)) for name in PARSERS),
    ChatCommand("tree", "show this session's sub-agents with their costs; /tree ID shows the steps of one", _show_tree),
    ChatCommand("clear", "start a new session", _clear, aliases=("new",)),
)


async def _go_back(chat: CommandContext, wanted: Rewind) -> Next:
    """Do what the command says. The message that was taken back is the next line."""
    session = chat.current.open()
    chosen = wanted if wanted.to is not None else await choose_rewind(session)
    if chosen is None:
        return None
    report = await run_rewind(session, chosen)
    _show_report(report, chat.view)
    if report.then and await _confirmed(report.then):
        report = await run_rewind(session, report.then)
        _show_report(report, chat.view)
    return Write(report.message)


def _show_report(report: RewindReport, view: SessionView) -> None:
    view.write([fit(safe_line(line), view.region.width) for line in report.lines])
    if report.problem:
        (view.note if report.hint else view.problem)(report.problem)
    if report.hint and not report.then:
        view.dim(report.hint)


async def _confirmed(wanted: Rewind) -> bool:
    detail = "and overwrite files that someone else changed since" if wanted.force else ""
    choices = [PickerChoice("yes", "Undo it", detail), PickerChoice("", "Leave it as it is")]
    return await pick("Undo the last turn?", choices) == "yes"


LONGEST = 400
"""Characters of a message in its line, which the window cuts."""


async def choose_rewind(session: Session) -> Rewind | None:
    """Return what the user chooses; None if the user leaves the list. Raises OutriderError."""
    points = await session.rewind_points()
    choices = [_choice(point) for point in reversed(points)]

    def message(number: str) -> Sequence[str]:
        return safe_lines(points[int(number) - 1].message.text).split("\n")

    number: str | None = None
    while number := await pick("Go back to before one of your messages", choices, message, number):
        preview = await session.rewind_preview(int(number))
        title = f"Back to before: {beginning(points[int(number) - 1].message, LONGEST)}"
        if what := await pick(title, _parts(preview), partial(_lines, preview)):
            return Rewind(int(number), what, force=what != "conversation" and bool(preview.conflicts))
    return None


def _choice(point: RewindPoint) -> PickerChoice:
    age = ago(time.time() - point.time)
    return PickerChoice(str(point.number), f"{point.number:>2}  {beginning(point.message, LONGEST)}", facts=(age,))


def _parts(preview: RewindPreview) -> list[PickerChoice]:
    """Return what can go back. If someone else changed files, the conversation comes first, which overwrites none."""
    said = f"{counted(preview.messages, 'message')} less"
    conversation = PickerChoice("conversation", "the conversation", said)
    if not preview.files:
        return [conversation]
    changed = f"{counted(len(preview.files), 'file')} change" + ("" if len(preview.files) > 1 else "s")
    if preview.conflicts:
        changed += f", also {len(preview.conflicts)} that someone else changed since"
    both = PickerChoice("both", "the conversation and the files", f"{said}, {changed}")
    files = PickerChoice("files", "the files", changed)
    return [conversation, both, files] if preview.conflicts else [both, conversation, files]


def _lines(preview: RewindPreview, what: str) -> list[str]:
    """Return what a choice would do."""
    return list(preview_lines(preview, files=what != "conversation", conversation=what != "files"))[1:]
