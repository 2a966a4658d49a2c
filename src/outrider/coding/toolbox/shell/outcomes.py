"""The result of a command: text for the model, figures for people, and the access level that it lacked."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from outrider.coding.access import ACCESS_LEVELS, ACCESS_WORDS, Access
from outrider.coding.toolbox.background_commands import BackgroundCommand
from outrider.coding.toolbox.shell.output import Outcome, Output
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import TextBlock, ToolResultBlock
from outrider.text import counted, human_size
from outrider.tools.result import ToolResult

PRINTED = "printed"
"""The detail with the number of characters, at the beginning of the text, that the command printed."""
_NO_OUTPUT, _STOPPED = "There was no output.", "The command was stopped."


def to_result(outcome: Outcome, output: Output, timeout: float, folder: Path, notes: Iterable[str]) -> ToolResult:
    """Return the result of a command that ran. `notes` are added to the text."""
    text, complete = output.text()
    whole = None
    if not complete and output.stored and outcome.cause != "stopped":  # a cancelled call must not wait for storage
        kept = "" if output.stored == output.total else "What was kept"
        whole = Attachment.from_path(output.spool, name="output.txt", description=kept)
    sentences = [*_storage_notes(output, complete), _end_note(outcome, timeout), *_process_notes(outcome), *notes]
    printed = text.rstrip("\n") if text.strip() else ""
    if not printed:
        sentences.insert(0, _NO_OUTPUT)
    return ToolResult(
        "\n".join(filter(None, [printed, *sentences])),
        is_error=outcome.cause != "ended" or outcome.exit_code != 0,
        details={
            **details(None if outcome.cause != "ended" else outcome.exit_code, outcome.seconds, output.total, folder),
            PRINTED: len(printed),
        },
        whole=whole,
    )


def printed_by(result: ToolResultBlock, details: Any) -> str:
    """Return the part of a stored result that the command printed, as far as the result has it."""
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    if isinstance(details, dict):
        return texts[0][: details.get(PRINTED)] if texts else ""
    # A stopped call has no details: the reason comes first, and the text of the command after it.
    printed, stopped, _ = texts[1].rpartition(f"\n{_STOPPED}") if len(texts) > 1 else ("", "", "")
    return printed if stopped and printed != _NO_OUTPUT else ""


def details(
    exit_code: int | None, seconds: float, size: int, folder: Path, command: BackgroundCommand | None = None
) -> dict[str, object]:
    """Return the figures that people see beside the output; with `command`, of one in the background."""
    figures: dict[str, object] = {
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "bytes": size,
        "cwd": str(folder),
    }
    return figures if command is None else {**figures, "background": command.process.pid, "task": command.number}


def exit_sentence(code: int | None) -> str:
    """Return how the shell ended, or "" for success.

    >>> exit_sentence(0), exit_sentence(1), exit_sentence(139), exit_sentence(-9)
    ('', 'Exit code 1.', 'Exit code 139 (SIGSEGV).', 'The shell was killed by SIGKILL.')
    """
    if not code:
        return ""
    if code < 0:
        return f"The shell was killed by {_signal_name(-code)}."
    name = _signal_name(code - 128) if code > 128 else ""
    return f"Exit code {code} ({name})." if name.startswith("SIG") else f"Exit code {code}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end_note(outcome: Outcome, timeout: float) -> str:
    if outcome.cause == "timed out":
        seconds = "second" if timeout == 1 else "seconds"
        return f"The command did not finish within {timeout:g} {seconds} and was stopped."
    return _STOPPED if outcome.cause == "stopped" else exit_sentence(outcome.exit_code)


def _process_notes(outcome: Outcome) -> Iterable[str]:
    if outcome.left_running > outcome.unkillable:
        were = "process was" if outcome.left_running == 1 else "processes were"
        yield (
            f"{outcome.left_running:,} {were} left running in the background and stopped; "
            "use run_in_background for processes that should go on."
        )
    if outcome.unkillable:
        yield f"{counted(outcome.unkillable, 'process', 'processes')} could not be ended."


def _storage_notes(output: Output, complete: bool) -> Iterable[str]:
    if complete:
        return
    if output.error:
        yield f"Only the first {output.stored:,} bytes are stored: {output.error}."
    elif output.total > MAX_BYTES:
        yield f"Only the first {human_size(MAX_BYTES)} are stored."


LAST_LINES = 8
"""Lines at the end of the output in which the cause of a failure is expected."""

# These are compiled when a command fails in the sandbox.
_NETWORK = (
    r"could not resolve (?:host|proxy)|temporary failure in name resolution|temporary failure resolving"
    r"|name or service not known|network is unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo ENOTFOUND"
    r"|failed to lookup address|nodename nor servname|dial tcp: lookup|unable to resolve host"
)
_BUSY = r"device or resource busy|EBUSY"
"""What a folder with a secret in it, or a protected entry, says when it is renamed or removed."""
_READ_ONLY = r"read-only file system|EROFS"
_REFUSED = r"permission denied|operation not permitted|EACCES|EPERM"
_CHANGE = (
    r"cannot (?:create|touch|remove|move|stat .{0,200} for writing)|(?:unable|failed|could not|cannot) .{0,40}"
    r"(?:creat|writ|remov|renam|lock|unlink|mkdir|open .* for writing)|mkdir|unlink|rename|rmdir"
)
_PATHS = r"['\"‘“`]([^'\"’”`\s]+)['\"’”`]|(?:^|\s)([\w.~/@+-]+)(?=: (?:read-only|permission|operation))"


LONGEST_LINE, MOST_PATHS = 2_000, 20
"""Characters of a message, and paths in it, that are looked at."""


def missing_access(access: Access, exit_code: int | None, output: str, cwd: Path, folders: Sequence[Path]) -> str:
    """Return a sentence for the model that names the level which a failed command needs, or "".

    An ordinary failure must not look like this: the model would ask for more access than it needs. So a message about a
    file counts only if this process could change that file, and messages that are not at the end do not count.
    """
    needed = _needed(access, output, cwd, folders) if exit_code and access != "full" else None
    if needed is None or ACCESS_LEVELS.index(needed) <= ACCESS_LEVELS.index(access):
        return ""
    return f"It seems to need access {needed} ({ACCESS_WORDS[needed]}): it ran with access {access}."


def _needed(access: Access, output: str, cwd: Path, folders: Sequence[Path]) -> Access | None:
    lines = [line for line in output.splitlines() if line.strip()][: -LAST_LINES - 1 : -1]
    for line in (line[:LONGEST_LINE] for line in lines):
        if re.search(_NETWORK, line, re.I):
            return "network"
        if access != "read" and re.search(_BUSY, line, re.I):
            return "full"
        if re.search(_READ_ONLY, line, re.I) or re.search(_REFUSED, line, re.I):
            found = [quoted or bare for quoted, bare in re.findall(_PATHS, line, re.I)]
            paths = [cwd / Path(name) for name in found[:MOST_PATHS] if "/" in name or not name.isspace()]
            if level := _for_file(access, line, paths, folders):
                return level
    return None


def _for_file(access: Access, line: str, paths: Sequence[Path], folders: Sequence[Path]) -> Access | None:
    read_only = bool(re.search(_READ_ONLY, line, re.I))
    is_change = read_only or bool(re.search(_CHANGE, line, re.I))
    for path in paths:
        changes = is_change or not os.path.lexists(path)
        if changes and _could_change(path):
            inside = any(path.is_relative_to(folder) for folder in folders) and ".git" not in path.parts
            is_protected = access != "read"  # `write` can change the rest of the folder
            return "write" if inside and not is_protected else "full"
    return "write" if read_only and not paths else None


def _could_change(path: Path) -> bool:
    """Return whether this process may change the file, or create it: then it was the sandbox that refused."""
    existing = next((each for each in (path, *path.parents) if os.path.exists(each)), Path("/"))
    return os.access(existing, os.W_OK)
