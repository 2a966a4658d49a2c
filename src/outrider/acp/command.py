"""`outrider acp`: serve an editor over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from outrider.acp.agent import EditorAgent
from outrider.acp.connection import Connection
from outrider.acp.stdio import serve
from outrider.acp.updates.metrics import append
from outrider.acp.writer import EditorWriter
from outrider.coding.permissions.question import MODES
from outrider.environment import LOG_HELP, WORKSPACE_HELP
from outrider.processes.starting import python_module
from outrider.providers.base import EFFORTS

DESCRIPTION = """\
Serve an editor that speaks the Agent Client Protocol (ACP), over standard input and output. Editors start this
command themselves: add `outrider acp` to their agent settings. It shares settings, permissions and sessions with the
chat.
"""
EXAMPLES = """\
examples:
  outrider acp
  outrider acp --model anthropic/balanced --permissions edits
  outrider acp --metrics updates.jsonl        log how many bytes were sent and saved
  outrider acp --full-updates                 for an editor that clears fields which an update omits

exit codes: 0 the editor closed the connection, 2 wrong usage
"""


def acp(arguments: list[str]) -> int:
    """Serve one editor until it closes the connection."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.login:
        os.execv(sys.executable, python_module("outrider", "login", options.login))
    if options.metrics:
        try:
            append(options.metrics, b"")
        except OSError as error:
            parser.error(f"--metrics: {options.metrics} cannot be written: {error.strerror}")
    asyncio.run(_serve(options))
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider acp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-m", "--model", metavar="MODEL", help="the model to use; `outrider models` lists them")
    parser.add_argument(
        *("--effort",),
        metavar="LEVEL",
        choices=EFFORTS,
        help=f"how much the model thinks in new sessions, where it has the level: {', '.join(EFFORTS)}",
    )
    parser.add_argument(
        "--permissions", metavar="MODE", choices=MODES, help=f"which tool calls run without asking: {', '.join(MODES)}"
    )
    parser.add_argument(
        "--lean", action="store_true", help="a short prompt and few tools, for models with a small context window"
    )
    parser.add_argument("--log", metavar="PLACE", help=LOG_HELP)
    parser.add_argument("--in", dest="workspace", metavar="PLACE", help=WORKSPACE_HELP)
    parser.add_argument("--full-updates", action="store_true", help="send every field of a tool call in each update")
    parser.add_argument(
        "--update-interval",
        metavar="SECONDS",
        type=_seconds,
        help="how long changes of tool calls are collected before they are sent (0.05); 0 sends each at once",
    )
    parser.add_argument("--metrics", metavar="FILE", type=Path, help="append counts of updates and bytes to this file")
    parser.add_argument(
        *("--login",),
        metavar="PROVIDER",
        nargs="?",
        const="anthropic",
        help="enter an API key in this terminal and exit; editors start this for their users",
    )
    return parser


async def _serve(options: argparse.Namespace) -> None:
    agents: list[EditorAgent] = []

    def connect(writer: EditorWriter) -> Connection:
        agents.append(EditorAgent(writer, _flags(options), metrics=options.metrics))
        return agents[0].connection

    async def end() -> None:
        await agents[0].close()

    await serve(connect, on_end=end)


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "model": options.model,
        "effort": options.effort,
        "permissions.mode": options.permissions,
        "lean": "on" if options.lean else None,
        "acp.full_updates": ["*"] if options.full_updates else None,
        "acp.update_interval": options.update_interval,
        "workspace": options.workspace,
    }
    return {key: value for key, value in given.items() if value is not None}


def _seconds(text: str) -> float:
    """Parse the interval. The error states the valid range, before an editor opens a session."""
    from outrider.coding.config.settings import SETTINGS
    from outrider.coding.config.value_types import InvalidValueError

    try:
        return float(SETTINGS["acp.update_interval"].value_type.check(float(text), None))
    except (InvalidValueError, ValueError) as error:
        wrong = str(error) if isinstance(error, InvalidValueError) else f"must be a number of seconds, not {text!r}"
        raise argparse.ArgumentTypeError(wrong) from None
