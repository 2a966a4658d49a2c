"""`outrider acp`: the agent for editors, over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from outrider.acp.agent import EditorAgent
from outrider.acp.measures import append
from outrider.acp.stdio import serve
from outrider.acp.wire import Connection
from outrider.acp.writer import Writer
from outrider.coding.permissions.question import MODES

DESCRIPTION = """\
Work for an editor that speaks the Agent Client Protocol (ACP), over standard input and output. Editors start it
themselves: put `outrider acp` into their settings for agents. Settings, permissions and sessions are those of the chat.
"""
EXAMPLES = """\
examples:
  outrider acp
  outrider acp --model anthropic/balanced --permissions edits
  outrider acp --metrics updates.jsonl        what was sent, and what was saved, while the sessions live
  outrider acp --full-updates                 for an editor that blanks what an update leaves out

exit codes: 0 the editor has closed it, 2 wrong usage
"""


def acp(arguments: list[str]) -> int:
    """Serve one editor until it goes away."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.metrics:
        try:
            append(options.metrics, b"")
        except OSError as error:
            parser.error(f"--metrics: {options.metrics} cannot be written: {error.strerror}")
    asyncio.run(_serve(options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider acp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-m", "--model", metavar="MODEL", help="who answers; `outrider models` lists them")
    parser.add_argument(
        "--permissions", metavar="MODE", choices=MODES, help=f"what is allowed without asking: {', '.join(MODES)}"
    )
    parser.add_argument(
        "--full-updates", action="store_true", help="send each update of a call whole, also to an editor without a name"
    )
    parser.add_argument(
        "--update-interval",
        metavar="SECONDS",
        type=_seconds,
        help="how long a change of a call waits for others to go out with it (0.05); 0 sends each at once",
    )
    parser.add_argument("--metrics", metavar="FILE", type=Path, help="append what was sent and saved to this file")
    parser.add_argument("--v2", action="store_true", help="speak the draft of version 2 with editors that offer it")
    return parser


async def _serve(options: argparse.Namespace) -> None:
    agents: list[EditorAgent] = []

    def connect(writer: Writer) -> Connection:
        agents.append(_agent_of(options)(writer, _flags(options), _load_tools, metrics=options.metrics))
        return agents[0].connection

    async def end() -> None:
        await agents[0].close()

    await serve(connect, on_end=end)


def _agent_of(options: argparse.Namespace) -> type[EditorAgent]:
    if not options.v2:
        return EditorAgent
    from outrider.acp.v2.agent import DraftAgent

    return DraftAgent


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "model": options.model,
        "permissions.mode": options.permissions,
        "acp.full_updates": ["*"] if options.full_updates else None,
        "acp.update_interval": options.update_interval,
    }
    return {key: value for key, value in given.items() if value is not None}


def _seconds(text: str) -> float:
    """The interval. An error names what it may be, before any editor waits for a session."""
    from outrider.coding.config.registry import SETTINGS
    from outrider.coding.config.value_types import InvalidValueError

    try:
        return float(SETTINGS["acp.update_interval"].value_type.check(float(text), None))
    except (InvalidValueError, ValueError) as error:
        wrong = str(error) if isinstance(error, InvalidValueError) else f"must be a number of seconds, not {text!r}"
        raise argparse.ArgumentTypeError(wrong) from None


def _load_tools(files: Any) -> Any:
    from outrider.coding.tool_files import load_tools

    return load_tools(files)
