"""A session and its sub-agents as a tree, with the usage of each and the total."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from outrider.conversation.usage import Usage
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.text import counted, dollars


class Branch(msgspec.Struct, frozen=True):
    """A session and its sub-agents."""

    summary: Summary
    children: Sequence[Branch] = ()

    @property
    def usage(self) -> Usage:
        """Return the usage of the whole branch."""
        return sum((child.usage for child in self.children), self.summary.usage)

    @property
    def turns(self) -> int:
        """Return the number of turns in the whole branch."""
        return self.summary.turns + sum(child.turns for child in self.children)


def tree_of(log: Log, id: str) -> Branch:
    return _branch(log, log.session(id))


def _branch(log: Log, summary: Summary) -> Branch:
    return Branch(summary, [_branch(log, child) for child in log.children(summary.id)])


def tree_lines(branch: Branch) -> Iterator[str]:
    """Yield one line per session, the root first, then the total if there are sub-agents."""
    root = branch.summary
    yield f"{root.title or '(empty session)'} · {used(root.turns, root.usage)}"
    yield from _below(branch.children, "")
    if branch.children:
        yield f"total {used(branch.turns, branch.usage)}"


def _below(children: Sequence[Branch], indent: str) -> Iterator[str]:
    for child in children:
        is_last = child is children[-1]
        line = f"{child.summary.id[:8]}  {child.summary.title} · {used(child.turns, child.usage)}"
        yield f"{indent}{'└─' if is_last else '├─'} {line}"
        yield from _below(child.children, f"{indent}{'   ' if is_last else '│  '}")


def used(turns: int, usage: Usage) -> str:
    """Format turns and cost."""
    return ", ".join(part for part in (counted(turns, "turn"), dollars(usage.cost)) if part)
