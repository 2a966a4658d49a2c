"""The permissions of a session: whoever is asked, is asked one question at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Ask, Mode, Question
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ConfigError
from outrider.tools.approval import Allow, Approver, Deny
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.permissions.decision import Decision


CHANGED = "it changed while the user was asked, so it was not done; look again before you repeat it"
"""What the model is told where an answer is for something else by now."""


class Case(msgspec.Struct, frozen=True):
    """A call that is to be judged."""

    use: ToolUseBlock
    effect: str
    cwd: Callable[[], Path]
    """Where the shell stands of whoever makes it."""
    asker: str = ""
    """Who that is, if it is a sub-agent, or a tool that attaches a file."""


class Permissions:
    """Says of each call whether it may run; asks a person if that is not settled. An approver."""

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
        self._cwd = cwd or (lambda: self._policy.folder)
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

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        """Decide whether a call may run."""
        return _decision(await self._judged(Case(use, tool.effect, self._cwd)))

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> Allow | Deny:
        """Decide whether a file may be attached to the result of a call, as if Read had read it."""
        return _decision(await self._attachable(use, given, real, ""))

    def on_behalf_of(self, asker: str, cwd: Callable[[], Path] | None = None) -> Approver:
        """The same permissions for a sub-agent, whose shell may stand elsewhere: its questions say whose they are."""
        return _OnBehalf(self, asker, cwd or self._cwd)

    async def _attachable(self, use: ToolUseBlock, given: str, real: str, asker: str) -> str:
        """A file is judged by where it is; one that is given by a name which is closed stays closed as well."""
        asker = ": ".join(filter(None, (asker, f"{use.name} (to attach a file)")))
        named, located = (
            Case(ToolUseBlock(use.id, "Read", {"file_path": path}), "read", self._cwd, asker) for path in (given, real)
        )
        if (decision := self._decide(named)).verdict == "deny":
            return f"this is not permitted: {decision.reason}"
        if self._decide(located).verdict == "ask" and self._is_read_of(use, real):
            return ""  # that was asked before the call
        return await self._judged(located)

    def _is_read_of(self, use: ToolUseBlock, real: str) -> bool:
        from outrider.coding.permissions.paths import place

        return use.name == "Read" and place(use.input.get("file_path"), str(self._policy.folder)).resolved == real

    async def _judged(self, case: Case) -> str:
        """Return a denial reason, or "" to allow."""
        decision = self._decide(case)
        if decision.verdict == "ask" and self._ask is not None:
            async with self._asking:
                decision = self._decide(case)  # an answer to the question before may have settled it
                if decision.verdict == "ask":
                    return await self._answered(self._ask, case, decision)
        match decision.verdict:
            case "allow":
                return ""
            case "deny":
                return f"this is not permitted: {decision.reason}"
        return self._refusal(case, decision)

    async def _answered(self, ask: Ask, case: Case, decision: Decision) -> str:
        use = case.use
        answer = await ask(Question(use.id, use.name, use.input, decision.reason, decision.always, case.asker))
        if answer.verdict == "no":
            return f"the user does not want this: {answer.words}" if answer.words else "the user does not want this"
        if self._has_changed(case, decision):
            return CHANGED
        if answer.verdict == "always" and decision.always:
            self._policy = self._policy.allowing(decision.always)
            if self._remember is not None:
                with contextlib.suppress(ConfigError):  # a full disk, say: then it is remembered until the end
                    self._remember(decision.always)
        return ""

    def _has_changed(self, case: Case, decision: Decision) -> bool:
        """Whether the call would now do something else than the person was asked about: a link leads elsewhere, say."""
        now = self._decide(case)
        return now.verdict != "allow" and now != decision

    def _decide(self, case: Case, policy: Policy | None = None) -> Decision:
        from outrider.coding.permissions.decision import decide  # not needed before the first call

        use = case.use
        return decide(policy or self._policy, use.name, case.effect, use.input, case.cwd())

    def _refusal(self, case: Case, decision: Decision) -> str:
        """Nobody can be asked: what would have allowed it."""
        modes: tuple[Mode, ...] = ("edits", "all")
        enough = [mode for mode in modes if self._is_enough(case, mode)]
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

    def _is_enough(self, case: Case, mode: Mode) -> bool:
        policy = msgspec.structs.replace(self._policy, mode=mode)
        return self._decide(case, policy).verdict == "allow"


class _OnBehalf:
    """The permissions of a session for one of its sub-agents. An approver of calls and files."""

    def __init__(self, permissions: Permissions, asker: str, cwd: Callable[[], Path]) -> None:
        self._permissions = permissions
        self._asker = asker
        self._cwd = cwd

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        return _decision(await self._permissions._judged(Case(use, tool.effect, self._cwd, self._asker)))

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> Allow | Deny:
        return _decision(await self._permissions._attachable(use, given, real, self._asker))


def _decision(reason: str) -> Allow | Deny:
    return Deny(reason) if reason else Allow()
