"""A session with the sub-agents that it sent out, as a tree, with what each of them used and all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from outrider.conversation.messages import Usage
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.text import counted, dollars


class Branch(msgspec.Struct, frozen=True):
    """A session and those below it."""

    summary: Summary
    children: Sequence[Branch] = ()

    @property
    def usage(self) -> Usage:
        """What all of it used."""
        return sum((child.usage for child in self.children), self.summary.usage)

    @property
    def turns(self) -> int:
        """How often a model answered in all of it."""
        return self.summary.turns + sum(child.turns for child in self.children)


def tree_of(log: Log, id: str) -> Branch:
    """The tree below a session."""
    return _branch(log, log.session(id))


def _branch(log: Log, summary: Summary) -> Branch:
    return Branch(summary, [_branch(log, child) for child in log.children(summary.id)])


def tree_lines(branch: Branch) -> Iterator[str]:
    """One line a session. The first is the root, with what all of them used if it is not alone."""
    root = branch.summary
    yield f"{root.title or '(nothing was said yet)'} · {used(root.turns, root.usage)}"
    yield from _below(branch.children, "")
    if branch.children:
        yield f"together {used(branch.turns, branch.usage)}"


def _below(children: Sequence[Branch], indent: str) -> Iterator[str]:
    for child in children:
        is_last = child is children[-1]
        about = f"{child.summary.id[:8]}  {child.summary.title} · {used(child.turns, child.usage)}"
        yield f"{indent}{'└─' if is_last else '├─'} {about}"
        yield from _below(child.children, f"{indent}{'   ' if is_last else '│  '}")


def used(turns: int, usage: Usage) -> str:
    """Turns and cost, in a few words."""
    return ", ".join(part for part in (counted(turns, "turn"), dollars(usage.cost)) if part)
