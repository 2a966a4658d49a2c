"""`outrider sessions audit`: who decided about the calls of a session, and whether its entries were changed since."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.session_format import Branch, by_whom, format_moment, tree_of
from outrider.coding.masking import mask_tokens
from outrider.coding.toolbox.titles import title
from outrider.log.audit import Decision
from outrider.log.log import Log
from outrider.log.session_id import shown_id
from outrider.log.verification import Verification
from outrider.text import counted
from outrider.text.visible import revealed_line

LONGEST = 160
"""Characters of a call in one line."""
SHOWN_HASH = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--all", action="store_true", help="list also calls that only read and ran without a question")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="instead, check the chain of the entries; name the first that was changed, and exit with 1",
    )


def audit(log: Log, options: argparse.Namespace) -> int:
    """List the decisions of a session and its sub-agents, or verify their entries."""
    tree = tree_of(log, options.id)
    if options.verify:
        verified = list(_verified(log, tree))
        if options.json:
            _print_json([msgspec.structs.asdict(each) for each, _ in verified])
        for each, indent in () if options.json else verified:
            for line in _verification_lines(each):
                print(f"{indent}{line}")
        return 0 if all(each.is_proved for each, _ in verified) else 1
    found = [each for each in log.audit(tree.summary.id) if options.all or not _only_reads(each)]
    if options.json:
        _print_json([_shown(each, Path(tree.summary.folder)) for each in found])
        return 0
    for line in _lines(tree, found, ""):
        print(line)
    if not found:
        print("There are no decisions: no call may have written anything.", file=sys.stderr)
    return 0


def _only_reads(decision: Decision) -> bool:
    return decision.effect == "read" and decision.allowed is not False and not decision.question


def _lines(branch: Branch, found: list[Decision], indent: str) -> Iterator[str]:
    """Yield the decisions of a session, then those of its sub-agents, indented."""
    summary = branch.summary
    for each in found:
        if each.session == summary.id:
            yield f"{indent}{_line(_shown(each, Path(summary.folder)))}"
    for child in branch.children:
        yield f"{indent}  {revealed_line(f'{shown_id(child.summary.id)} “{child.summary.title}”')}"
        yield from _lines(child, found, f"{indent}  ")


def _shown(decision: Decision, folder: Path) -> dict[str, Any]:
    """Return a decision without secrets: the call is one line, with what looks like a key masked."""
    call = title(decision.tool, decision.input, folder) if decision.tool else decision.about
    call = mask_tokens(call)
    fields = msgspec.structs.asdict(decision)
    del fields["input"], fields["about"]
    masked = {name: mask_tokens(fields[name]) for name in ("by", "answer")}
    return fields | masked | {"call": call if len(call) <= LONGEST else f"{call[: LONGEST - 1]}…"}


def _line(shown: dict[str, Any]) -> str:
    verdict = "no approver" if shown["allowed"] is None else "allowed" if shown["allowed"] else "denied"
    answer = f" ({shown['answer']})" if shown["answer"] else ""
    asked = f", question {shown['question'][:SHOWN_HASH]}" if shown["question"] else ""
    outcome = "" if not shown["tool"] else f": {shown['outcome']}"
    copied = ", copied" if shown["is_copied"] else ""
    said = f"{shown['call']}  {verdict}{by_whom(shown['by'])}{answer}{asked}{outcome}{copied}"
    return f"{shown['entry']:>6}  {format_moment(shown['time'])}  {revealed_line(said)}"


def _verified(log: Log, branch: Branch, indent: str = "") -> Iterator[tuple[Verification, str]]:
    """Yield what the chain of each session proves, and its indent."""
    yield log.verify(branch.summary.id), indent
    for child in branch.children:
        yield from _verified(log, child, f"{indent}  ")


def _verification_lines(found: Verification) -> Iterator[str]:
    name = shown_id(found.session)
    if found.is_proved:
        yield f"{name}  {counted(found.verified, 'entry', 'entries')} verified, none was changed."
    else:
        when = "" if found.time is None else f" ({revealed_line(found.kind)}, {format_moment(found.time)})"
        yield f"{name}  NOT PROVED: {found.problem}{when}"
    for note in found.notes:
        yield f"{'':10}{note}"


def _print_json(values: list[dict[str, Any]]) -> None:
    print(msgspec.json.encode(values).decode())
