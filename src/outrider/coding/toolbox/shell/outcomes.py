"""What a command came to, in words for the model and in figures for people."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from outrider.coding.toolbox.shell.following import Ending
from outrider.coding.toolbox.shell.output import Output
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.text import counted, human_size
from outrider.tools.result import ToolResult


def as_result(ending: Ending, output: Output, timeout: float, folder: Path, notes: Iterable[str]) -> ToolResult:
    """The result of a command that ran. `notes` are what else there is to say."""
    text, complete = output.text()
    whole = None
    if not complete and output.stored and ending.cause != "stopped":  # who cancelled does not wait for it to be stored
        kept = "" if output.stored == output.total else "What was kept"
        whole = Attachment.from_path(output.spool, name="output.txt", description=kept)
    said = [*_on_storage(output, complete), _on_end(ending, timeout), *_on_others(ending), *notes]
    if not text.strip():
        said.insert(0, "There was no output.")
    return ToolResult(
        "\n".join(filter(None, [text.rstrip("\n") if text.strip() else "", *said])),
        is_error=ending.cause != "ended" or ending.exit_code != 0,
        details=details(None if ending.cause != "ended" else ending.exit_code, ending.seconds, output.total, folder),
        whole=whole,
    )


def details(
    exit_code: int | None, seconds: float, size: int, folder: Path, background: int | None = None
) -> dict[str, object]:
    """What people see of a command beside its output."""
    figures: dict[str, object] = {
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "bytes": size,
        "cwd": str(folder),
    }
    return figures if background is None else {**figures, "background": background}


def exit_sentence(code: int | None) -> str:
    """How the shell ended, if that is worth a word.

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


def _on_end(ending: Ending, timeout: float) -> str:
    if ending.cause == "timed out":
        seconds = "second" if timeout == 1 else "seconds"
        return f"The command did not finish within {timeout:g} {seconds} and was stopped."
    return "The command was stopped." if ending.cause == "stopped" else exit_sentence(ending.exit_code)


def _on_others(ending: Ending) -> Iterable[str]:
    if ending.left > ending.immortal:
        were = "process was" if ending.left == 1 else "processes were"
        yield (
            f"{ending.left:,} {were} left running in the background and stopped; "
            "use run_in_background for what should go on."
        )
    if ending.immortal:
        yield f"{counted(ending.immortal, 'process', 'processes')} could not be ended."


def _on_storage(output: Output, complete: bool) -> Iterable[str]:
    if complete:
        return
    if output.fault:
        yield f"Only the first {output.stored:,} bytes are stored: {output.fault}."
    elif output.total > MAX_BYTES:
        yield f"Only the first {human_size(MAX_BYTES)} are stored."
