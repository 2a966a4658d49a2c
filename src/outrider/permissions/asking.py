"""The permissions of a session: whoever is asked, is asked one question at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.errors import ConfigError
from outrider.messages import ToolUseBlock
from outrider.permissions.policy import Policy
from outrider.permissions.question import Ask, Mode, Question
from outrider.tools import Tool

if TYPE_CHECKING:
    from outrider.permissions.decision import Decision


CHANGED = "it changed while the user was asked, so it was not done; look again before you repeat it"
"""What the model is told where an answer is for something else by now."""


class Permissions:
    """Says of each call whether it may run; asks a person if that is not settled. A Permit."""

    def __init__(
        self,
        policy: Policy,
        *,
        ask: Ask | None = None,
        remember: Callable[[Sequence[str]], None] | None = None,
        cwd: Callable[[], Path] | None = None,
    ) -> None:
        self._policy = policy
        self._ask = ask
        self._remember = remember
        self._cwd = cwd
        self._asking = asyncio.Lock()

    @property
    def policy(self) -> Policy:
        """What is decided by at the moment."""
        return self._policy

    @property
    def mode(self) -> Mode:
        """How much is allowed without a question."""
        return self._policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._policy = msgspec.structs.replace(self._policy, mode=mode)

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> str:
        """Why a call may not run, in words for the model; empty if it may."""
        decision = self._decide(use, tool)
        if decision.verdict == "ask" and self._ask is not None:
            async with self._asking:
                decision = self._decide(use, tool)  # an answer to the question before may have settled it
                if decision.verdict == "ask":
                    return await self._answered(self._ask, use, tool, decision)
        match decision.verdict:
            case "allow":
                return ""
            case "deny":
                return f"this is not permitted: {decision.reason}"
        return self._refusal(use, tool, decision)

    async def _answered(self, ask: Ask, use: ToolUseBlock, tool: Tool, decision: Decision) -> str:
        answer = await ask(Question(use.id, use.name, use.input, decision.reason, decision.always))
        if answer.verdict == "no":
            return f"the user does not want this: {answer.words}" if answer.words else "the user does not want this"
        if self._has_changed(use, tool, decision):
            return CHANGED
        if answer.verdict == "always" and decision.always:
            self._policy = self._policy.allowing(decision.always)
            if self._remember is not None:
                with contextlib.suppress(ConfigError):  # a full disk, say: then it is remembered until the end
                    self._remember(decision.always)
        return ""

    def _has_changed(self, use: ToolUseBlock, tool: Tool, decision: Decision) -> bool:
        """Whether the call would now do something else than the person was asked about: a link leads elsewhere, say."""
        now = self._decide(use, tool)
        return now.verdict != "allow" and now != decision

    def _decide(self, use: ToolUseBlock, tool: Tool, policy: Policy | None = None) -> Decision:
        from outrider.permissions.decision import decide  # not needed before the first call

        where = self._policy.folder if self._cwd is None else self._cwd()
        return decide(policy or self._policy, use.name, tool.effect, use.input, where)

    def _refusal(self, use: ToolUseBlock, tool: Tool, decision: Decision) -> str:
        """Nobody can be asked: what would have allowed it."""
        modes: tuple[Mode, ...] = ("edits", "all")
        enough = [mode for mode in modes if self._is_enough(use, tool, mode)]
        advice = (
            [f"run again with --permissions {' (or '.join(enough)}{')' if len(enough) > 1 else ''}"] if enough else []
        )
        if decision.always:
            rules = ", ".join(f'"{rule}"' for rule in decision.always)
            advice.append(
                f"allow it with the rule{'s' if len(decision.always) > 1 else ''} {rules} in the configuration"
            )
        hint = f": {', or '.join(advice)}" if advice else "; run it in a terminal"
        return f"it needs permission ({decision.reason}), and there is no terminal to ask{hint}"

    def _is_enough(self, use: ToolUseBlock, tool: Tool, mode: Mode) -> bool:
        policy = msgspec.structs.replace(self._policy, mode=mode)
        return self._decide(use, tool, policy).verdict == "allow"
