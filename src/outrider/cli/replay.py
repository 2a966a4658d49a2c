"""`outrider replay`: run a recorded session again, or ask another model at each of its steps."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cli.command_parser import command_parser, reported
from outrider.cli.options import WRONG_INPUT, UsageError
from outrider.environment import LOG_HELP
from outrider.log.session_id import shown_id

if TYPE_CHECKING:
    from outrider.coding.workbench import Workbench
    from outrider.conversation.messages import Message
    from outrider.log.log import Log
    from outrider.replay.difference import Replayed
    from outrider.replay.other_model import OtherReply
    from outrider.runtime.agent import Agent

DESCRIPTION = """\
Run a recorded session again, in a temporary log and without a network, and name the first entry that differs. Replies,
decisions, queued messages, cancels and summaries come from the log, each at the place where it came; sub-agents are
replayed too. With --tools recorded (the default) results come from the log as well, and nothing is written. With
--tools run the tools run again in the session's folder, with all that they write, and their results are compared.

With --model MODEL another model is asked at each step, with the recorded history up to there: the table says where it
would act differently. Its tools do not run.
"""
EXAMPLES = """\
examples:
  outrider replay
  outrider replay 3f2a91 --tools run
  outrider replay 3f2a91 --strict
  outrider replay 3f2a91 --model anthropic/fast --budget 0.50
  outrider replay 3f2a91 --model anthropic/fast --system prompt.md --json

exit codes: 0 no difference, or all steps were asked; 1 a difference, or an error; 2 wrong usage or unknown session;
  3 budget used up; 130 interrupted
"""


def replay(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)

    def run() -> int:
        from outrider.sync import default_log

        _check(options)
        with default_log() as log:
            found = _session(log, options.session)
            return _ask(log, found, options) if options.model else _replay(log, found, options)

    return reported("replay", run, WRONG_INPUT)


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("replay", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("session", nargs="?", default="", metavar="SESSION", help="the id of a session, or its beginning (the newest)")
    add(
        *("--tools",),
        choices=["recorded", "run"],
        default="recorded",
        help="take results from the log (the default), or run the tools again in the session's folder",
    )
    add("--strict", action="store_true", help="compare the prompt, the tools and the settings with today's agent, too")
    add("-m", "--model", metavar="MODEL", help="ask this model at each step instead")
    add("--system", metavar="FILE", help="a file with another system prompt, with --model")
    add("--budget", metavar="DOLLARS", help="stop asking when it has cost this much, with --model")
    add("--json", action="store_true", help="print JSON: one object, or one line for each step with --model")
    add("--log", metavar="PLACE", help=LOG_HELP)
    return parser


def _check(options: argparse.Namespace) -> None:
    from outrider.cli.batch import positive

    if not options.model and (options.system or options.budget):
        raise UsageError("--system and --budget are for --model MODEL, which asks another model")
    if options.model and (options.tools == "run" or options.strict):
        raise UsageError("--tools and --strict are not for --model: no tool runs, and nothing is compared but replies")
    if options.budget is not None:
        options.budget = positive("--budget", options.budget)


def _session(log: Log, named: str) -> str:
    from outrider.errors import UnknownSessionError

    if named:
        return log.session(named).id
    if not (newest := log.sessions(1)):
        raise UnknownSessionError(f"there are no sessions yet in {log.location}")
    return newest[0].id


# The same session again


def _replay(log: Log, id: str, options: argparse.Namespace) -> int:
    from outrider.replay.replayer import replay

    bench = _bench(log, id) if options.tools == "run" or options.strict else None
    try:
        agent = _agent(bench, log.session(id).model) if bench else None
        done = asyncio.run(replay(log, id, agent, tools=options.tools, is_strict=options.strict))
    finally:
        if bench:
            bench.close()
    _print_replayed(done, as_json=options.json)
    return 1 if done.difference else 0


def _agent(bench: Workbench, model: str) -> Agent:
    """Return the agent for the model of the session. One that is not there now is not asked anyway."""
    from outrider.errors import ProviderError, UnknownModelError

    try:
        return bench.agent(model=model)
    except (UnknownModelError, ProviderError):
        return bench.agent(model="demo")


def _bench(log: Log, id: str) -> Workbench:
    """Return the coding agent of today in the folder of the session."""
    from outrider.coding.config.loading import load
    from outrider.coding.mcp.server_files import find_servers
    from outrider.coding.workbench import Workbench

    if note := log.foreign_note(id):
        raise UsageError(f"its calls are not run again here: {note}")
    folder = Path(log.settings(id).cwd or ".")
    if not folder.is_dir():
        raise UsageError(f"the folder of the session is gone: {folder}")
    settings = load(folder, environment=os.environ).settings
    return Workbench(settings, folder, servers=find_servers(folder, os.environ).servers)


def _print_replayed(done: Replayed, *, as_json: bool) -> None:
    import msgspec

    from outrider.text import counted

    if as_json:
        print(msgspec.json.encode(done).decode())
        return
    among = f", {done.sessions - 1} of its sub-agents included" if done.sessions > 1 else ""
    if done.difference:
        print(f"{shown_id(done.session)} differs at {done.difference}")
    else:
        print(f"{shown_id(done.session)}: 0 differences in {counted(done.entries, 'entry', 'entries')}{among}")


# Another model at each step


def _ask(log: Log, id: str, options: argparse.Namespace) -> int:
    replies: list[OtherReply] = []
    try:
        is_spent = asyncio.run(_ask_all(log, id, options, replies))
    except KeyboardInterrupt:
        _print_summary(replies, as_json=options.json)
        raise
    _print_summary(replies, as_json=options.json)
    if is_spent:
        print("outrider replay: the budget is used up", file=sys.stderr)
    return 3 if is_spent else 0


async def _ask_all(log: Log, id: str, options: argparse.Namespace, replies: list[OtherReply]) -> bool:
    """Ask at each step, and show each reply. Return whether the budget is used up before the end."""
    from outrider.providers.resolution import resolve
    from outrider.replay.other_model import other_replies

    system = _read(options.system) if options.system else None
    spent = 0.0
    replied = other_replies(log, id, resolve(options.model), system=system)
    if not options.json:
        print(f"Asking {options.model} at each step of {shown_id(id)} …", file=sys.stderr, flush=True)
    async for reply in replied:
        replies.append(reply)
        print(_json(reply) if options.json else _line(reply), flush=True)
        spent += reply.usage.cost or 0.0
        if options.budget is not None and spent >= options.budget:
            await replied.aclose()  # type: ignore[attr-defined]
            return reply.turn < log.session(id).turns
    return False


def _read(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{name} cannot be read: {error}") from None


def _line(reply: OtherReply) -> str:
    from outrider.text.visible import one_line

    mark = "=" if reply.agreement == "same" else "≠"
    said = _said(reply.recorded)
    if mark != "=":
        said += f"  →  {_said(reply.replied)}  ({reply.agreement})"
    return f"{reply.turn:>4} {mark} {one_line(said, 400)}"


def _said(message: Message) -> str:
    import msgspec

    if not message.tool_calls:
        return f"“{' '.join(message.text.split())[:80]}”"
    calls = (f"{each.name}({msgspec.json.encode(each.input).decode()[:80]})" for each in message.tool_calls)
    return ", ".join(calls)


def _json(reply: OtherReply) -> str:
    import msgspec

    fields: dict[str, Any] = {
        "turn": reply.turn,
        "seq": reply.seq,
        "agreement": reply.agreement,
        "recorded": reply.recorded,
        "replied": reply.replied,
        "usage": reply.usage,
    }
    return msgspec.json.encode(fields).decode()


def _print_summary(replies: list[OtherReply], *, as_json: bool) -> None:
    from outrider.conversation.usage import Usage
    from outrider.text import counted, dollars, thousands

    if as_json or not replies:
        return
    counts = Counter(reply.agreement for reply in replies)
    same, total = counts.pop("same", 0), len(replies)
    first = next((reply.turn for reply in replies if reply.agreement != "same"), None)
    print(f"\nsame at {same} of {counted(total, 'step')} ({same / total:.0%})")
    for agreement, count in counts.most_common():
        print(f"  {agreement}: {count}")
    if first:
        print(f"first divergence: turn {first}")
    used = sum((reply.usage for reply in replies), Usage())
    cost = dollars(used.cost) or "cost unknown"
    print(f"{thousands(used.input_tokens)} tokens in, {thousands(used.output_tokens)} out, {cost}")
