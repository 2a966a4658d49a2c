"""The approver of a session: decides about each call, and asks the user, one question at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from outrider.coding.access import Access
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Ask, Grant, Mode, PendingCall, Preview, Question, narrower
from outrider.coding.permissions.rules import at_any_level, is_shared
from outrider.conversation.messages import ToolUseBlock
from outrider.tools.approval import Allow, Approver, Deny
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.permissions.decision import Decision
    from outrider.coding.permissions.policy import Verdict
    from outrider.coding.toolbox.background_commands import BackgroundCommand
    from outrider.coding.toolbox.workspace import Grounds, Workspace

T = TypeVar("T")

CHANGED = "it changed while the user was asked, so the call did not run; check again before you repeat it"
"""What the model reads if the call would now do something else than the user approved."""
MOST_ANSWERS = 1000
"""Answers to remember. A call runs right after its answer."""


class Judge(Protocol):
    """Decides about calls where their files are, if that is not here."""

    def decides(self, tool: str) -> bool:
        """Return whether calls of a built-in tool are decided there."""

    async def decide(self, policy: Policy, call: PendingCall) -> Decision:
        """Decide about a call. It is denied if that is impossible."""

    async def preview(self, call: PendingCall) -> Preview:
        """Return what a question shows of the call that was decided on last."""


class PermissionApprover:
    """An approver that applies a policy, and asks the user where the policy says so."""

    def __init__(
        self,
        policy: Policy,
        *,
        ask: Ask | None = None,
        remember: Callable[[Sequence[str]], None] | None = None,
        cwd: Callable[[], Path] | None = None,
    ) -> None:
        self.policy = policy
        """It grows with each "always"."""
        self._ask = ask
        self._remember = remember
        self._cwd = cwd or (lambda: self.policy.folder)
        self.given: Callable[[dict[str, Any], str, str], Ask] | None = None
        """Makes a dialogue that knows the answer to one question, from an earlier process or elsewhere."""
        self.before_command: Callable[[], object] = bool
        """Called before a command is decided on, so that the sandbox has been tried by then."""
        self.command: Callable[[int], BackgroundCommand | None] = lambda _: None
        """Returns the background command with a number, which a call types into."""
        self.elsewhere: Judge | None = None
        """Decides about calls of the tools that run elsewhere."""
        self._one_at_a_time = asyncio.Lock()
        self._answered: dict[tuple[str, str], tuple[str, ...]] = {}
        """The resolved paths that the user agreed to, by sub-agent and call."""
        self._unasked: dict[tuple[str, str], PendingCall] = {}
        """The commands that are allowed by the names of their programs alone, by sub-agent and call."""

    @property
    def mode(self) -> Mode:
        return self.policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.policy = msgspec.structs.replace(self.policy, mode=narrower(mode, self.policy.max_mode))

    @property
    def sandboxed(self) -> bool:
        """Whether a sandbox enforces the access levels of commands. False until it has been found."""
        return self.policy.sandboxed

    @sandboxed.setter
    def sandboxed(self, sandboxed: bool) -> None:
        self.policy = msgspec.structs.replace(self.policy, sandboxed=sandboxed)

    def use_doubts(self, doubts: dict[Access, tuple[str, ...]]) -> None:
        """Ask about commands of these access levels, for these reasons, until the user has accepted them."""
        self.policy = msgspec.structs.replace(self.policy, doubts=doubts)

    def allow(self, rules: Sequence[str]) -> None:
        """Allow more for this session. Deny rules and secrets still win. Raises ConfigError."""
        self.policy = self.policy.allowing(tuple(rules))

    def hide(self, folder: Path) -> None:
        """Hide another folder of Outrider's data: that of the log."""
        self.policy = msgspec.structs.replace(self.policy, own=self.policy.own.hiding(folder))

    @property
    def can_ask(self) -> bool:
        return self._ask is not None

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        return await self._approval(self._pending(use, tool))

    def answered(self, question: dict[str, Any], option: str, words: str) -> Approver:
        """Return an approver for a call that the user was asked about before. Another question is asked anew."""
        return partial(self._decide_answered, self._given(question, option, words), self._pending)

    def _given(self, question: dict[str, Any], option: str, words: str) -> Ask | None:
        return self.given(question, option, words) if self.given else self._ask

    async def _decide_answered(
        self, ask: Ask | None, pending: Callable[[ToolUseBlock, Tool], PendingCall], use: ToolUseBlock, tool: Tool
    ) -> Allow | Deny:
        return await self._approval(pending(use, tool), ask)

    def _pending(self, use: ToolUseBlock, tool: Tool) -> PendingCall:
        return PendingCall(use, tool.effect, self._cwd, built_in=tool.built_in)

    def verdict(self, tool: str) -> Verdict:
        """Return what the policy says of a built-in tool as a whole."""
        return self.decide(PendingCall(ToolUseBlock(tool, tool, {}), "external", self._cwd)).verdict

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> Allow | Deny:
        """Decide whether a file may be attached to the result of a call, as if Read had read it."""
        return await self._attachment(use, given, real, "")

    def policy_in(self, folder: Path | None) -> Policy:
        """Return the current policy, for callers in a worktree."""
        return self.policy if folder is None or folder == self.policy.folder else self.policy.moved(folder)

    def confirm(self, call_id: str, tool: str, path: str, asker: str = "", folder: Path | None = None) -> str:
        """Return why an approved call may not open a resolved path after all, or "".

        Links may lead elsewhere than when the call was decided on.
        """
        from outrider.coding.permissions.file_access import SEARCH_TOOLS, as_resolved, check_path

        part = check_path(self.policy_in(folder), tool, "read" if tool in SEARCH_TOOLS else "write", as_resolved(path))
        if part.verdict == "deny":
            return part.reason
        agreed = part.verdict == "allow" or path in self._answered.get((asker, call_id), ())
        return "" if agreed else f"it leads to {path} now, which was not approved"

    def grounds(self, call_id: str, asker: str = "") -> Grounds:
        """Return why a command runs. One that nobody was asked about is checked once more: links may have changed."""
        call = self._unasked.pop((asker, call_id), None)
        if call is None:
            return "agreed"
        return "unasked" if self.decide(call).verdict == "allow" else "changed"

    def granted(self, call_id: str, asker: str = "") -> Grant:
        return Grant(self._answered.get((asker, call_id), ()), self._unasked.pop((asker, call_id), None) is not None)

    def grant(self, call: PendingCall, grant: Grant) -> None:
        """Let a call run that the session's approver, in another process, has allowed."""
        self._note(self._answered, call, grant.paths)
        self._unasked.pop((call.asker, call.use.id), None)
        if grant.unasked:
            self._note(self._unasked, call, call)

    def permit(self, workspace: Workspace, asker: str = "", folder: Path | None = None) -> None:
        """Let the tools of a workspace, which may be a worktree, confirm what they open and run."""
        workspace.confirm = partial(self.confirm, asker=asker, folder=folder)
        workspace.grounds = partial(self.grounds, asker=asker)
        workspace.granted = partial(self.granted, asker=asker)

    def use_policy(self, policy: Policy) -> None:
        self.policy = policy

    def on_behalf_of(
        self,
        asker: str,
        cwd: Callable[[], Path] | None = None,
        *,
        workspace: str = "",
        folder: Path | None = None,
        in_background: bool = False,
    ) -> SubagentApprover:
        """Return an approver for a sub-agent. Its questions name the sub-agent; it may work in a worktree."""
        ask = self._ask_behind if in_background and self._ask else None
        return SubagentApprover(self, asker, cwd or self._cwd, workspace, folder, ask)

    async def _ask_behind(self, question: Question) -> Answer:
        assert self._ask
        return await self._ask(msgspec.structs.replace(question, in_background=True))

    async def _attachment(
        self, use: ToolUseBlock, given: str, real: str, asker: str, folder: Path | None = None, ask: Ask | None = None
    ) -> Allow | Deny:
        """Decide about a file. Its real path decides; a denied name is denied as well."""
        asker = ": ".join(filter(None, (asker, f"{use.name} (to attach a file)")))
        named, located = (
            PendingCall(ToolUseBlock(use.id, "Read", {"file_path": path}), "read", self._cwd, asker, folder=folder)
            for path in (given, real)
        )
        if (decision := self.decide(named)).verdict == "deny":
            return Deny(f"this is not permitted: {decision.reason}", "a rule")
        if self.decide(located).verdict == "ask" and self._is_read_of(use, real, folder):
            return Allow("the user")  # who was asked before the call
        return await self._approval(located, ask, here=True)

    def _is_read_of(self, use: ToolUseBlock, real: str, folder: Path | None) -> bool:
        from outrider.coding.permissions.file_access import resolve_tool_path

        return (
            use.name == "Read"
            and resolve_tool_path(use.input.get("file_path"), str(folder or self.policy.folder)).resolved == real
        )

    async def _approval(self, call: PendingCall, ask: Ask | None = None, *, here: bool = False) -> Allow | Deny:
        """Decide by the policy, or ask the user. `here`: it is about a file here, wherever the tools run."""
        judge = None if here or not call.built_in else self.elsewhere
        judge = judge if judge and judge.decides(call.use.name) else None
        decision = await self._judged(call, judge)
        if decision.verdict == "ask" and (ask := ask or self._ask):
            async with self._one_at_a_time:
                decision = await self._judged(call, judge)  # the answer to the previous question may apply
                if decision.verdict == "ask":
                    return await self._ask_user(ask, call, decision, judge)
        match decision.verdict:
            case "allow":
                self._unasked.pop((call.asker, call.use.id), None)
                if decision.unasked:
                    self._note(self._unasked, call, call)
                return Allow(f"the rule {', '.join(decision.rules)}" if decision.rules else f"the mode {self.mode}")
            case "deny":
                return Deny(f"this is not permitted: {decision.reason}", "a rule")
        denial = await self._denial_without_user(call, decision, judge)
        return Deny(denial, "nobody: there is no user to ask")

    @staticmethod
    def _note(notes: dict[tuple[str, str], T], call: PendingCall, value: T) -> None:
        while len(notes) >= MOST_ANSWERS:
            notes.pop(next(iter(notes)))
        notes[call.asker, call.use.id] = value

    def preview(self, call: PendingCall) -> Preview:
        """Return what a question shows of a call, from the files here."""
        use, cwd, working = call.use, call.cwd(), call.folder or self.policy.folder
        from outrider.coding.toolbox.files.regions import change_summary, proposed_diff  # many sessions ask nothing

        folder = str(cwd) if use.name == "Bash" and cwd != working else ""
        changes = change_summary(use.name, use.input, working)
        return Preview(folder, changes, proposed_diff(use.name, use.input, working))

    async def _ask_user(self, ask: Ask, call: PendingCall, decision: Decision, judge: Judge | None) -> Allow | Deny:
        use = call.use
        self._unasked.pop((call.asker, use.id), None)
        shown = await judge.preview(call) if judge else self.preview(call)
        always, prefix = decision.always, decision.prefix
        question = Question(
            use.id,
            use.name,
            use.input,
            decision.reason,
            always,
            call.asker,
            shown.folder,
            shown.changes,
            prefix=prefix,
            where=self.policy.where(always),
            diff=shown.diff,
        )
        answer = await ask(question)
        if answer.verdict == "never" or (answer.verdict == "no" and question.is_for_session):
            self.policy = self.policy.denying(at_any_level(always))
        if answer.verdict in ("no", "never"):
            said = f": {answer.words}" if answer.words else ", and says next what to do" if answer.ends_run else ""
            return Deny(f"the user does not want this{said}", "the user", answer.ends_run)
        now = await self._judged(call, judge)
        if now.verdict != "allow" and now != decision:  # it would now do something else than the user was asked about
            return Deny(CHANGED, "the user")
        self._note(self._answered, call, decision.resolved_paths)
        self.policy = msgspec.structs.replace(self.policy, accepted=(*self.policy.accepted, *decision.doubts))
        if answer.verdict == "edits":
            self.mode = "edits"
        if question.is_for_session:
            self.policy = self.policy.allowing(always)
        if rules := {"always": always, "prefix": prefix}.get(answer.verdict):
            self.policy = self.policy.allowing(rules, shared=is_shared(rules))
            if self._remember is not None:
                self._remember(rules)
        return Allow("the user")

    async def _judged(self, call: PendingCall, judge: Judge | None, policy: Policy | None = None) -> Decision:
        return await judge.decide(policy or self.policy, call) if judge else self.decide(call, policy)

    def decide(self, call: PendingCall, policy: Policy | None = None) -> Decision:
        """Decide about a call by the policy, without asking."""
        from outrider.coding.permissions.decision import Call, TypedInto, decide  # not needed before the first call

        use, running = call.use, None
        if use.name == "Bash":
            self.before_command()
            number = use.input.get("session")
            running = self.command(number) if isinstance(number, int) and number else None
        into = TypedInto(running.command, running.access, not running.running) if running and running.terminal else None
        policy = policy or self.policy
        policy = policy.moved(call.folder) if call.folder else policy
        if self.elsewhere:  # rules for files and commands are about those there
            rules = tuple(rule for rule in policy.allow if not self.elsewhere.decides(rule.tool))
            policy = msgspec.structs.replace(policy, allow=rules)
        return decide(policy, Call(use.name, call.effect, use.input, call.cwd(), call.built_in, into))

    async def _denial_without_user(self, call: PendingCall, decision: Decision, judge: Judge | None) -> str:
        """Return a denial that names the flag or the rule that would allow the call."""
        modes: tuple[Mode, ...] = ("edits", "all")
        most = self.policy.max_mode
        wider = [(mode, msgspec.structs.replace(self.policy, mode=narrower(mode, most))) for mode in modes]
        enough = [mode for mode, policy in wider if (await self._judged(call, judge, policy)).verdict == "allow"]
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


class SubagentApprover(msgspec.Struct, frozen=True):
    """The approver of a session, for one of its sub-agents."""

    permissions: PermissionApprover
    asker: str
    cwd: Callable[[], Path]
    workspace: str = ""
    folder: Path | None = None
    ask: Ask | None = None
    """How it asks, if not as the session."""

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        return await self.permissions._approval(self._pending(use, tool), self.ask)

    def _pending(self, use: ToolUseBlock, tool: Tool) -> PendingCall:
        return PendingCall(use, tool.effect, self.cwd, self.asker, tool.built_in, self.folder, self.workspace)

    def answered(self, question: dict[str, Any], option: str, words: str) -> Approver:
        ask = self.permissions._given(question, option, words)
        return partial(self.permissions._decide_answered, ask, self._pending)

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> Allow | Deny:
        return await self.permissions._attachment(use, given, real, self.asker, self.folder, self.ask)

    def permit(self, workspace: Workspace) -> None:
        self.permissions.permit(workspace, self.asker, self.folder)
