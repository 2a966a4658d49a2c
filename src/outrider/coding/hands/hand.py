"""`Hand`: the toolbox of a session in a process of its own, with the session's permissions, where the files are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from outrider.coding.config.settings import PermissionSettings, SandboxSettings, Settings
from outrider.coding.hands.protocol import CHUNK, VERSION, CommandState, Welcome
from outrider.coding.hands.requests import (
    HANDS_TOOLS,
    MOST_FILES,
    CallToDo,
    Done,
    FileInfo,
    Judge,
    Judged,
    Run,
    Setup,
    Stance,
)
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Grant, PendingCall
from outrider.coding.permissions.rules import Rule
from outrider.coding.session_tools import SessionTools
from outrider.coding.system_prompt import FolderInstructions
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import user_policy
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import AttachmentError, HandsError
from outrider.processes.programs import Programs
from outrider.tools.approval import FileApprover, denial_in
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

MOST_WORKSPACES = 1_000


class Reply(Protocol):
    """What a running request sends before its answer."""

    def progress(self, content: object) -> None:
        """Send progress, from any thread."""

    async def chunk(self, file: int, data: bytes) -> None:
        """Send the next bytes of a file, as fast as the other side reads."""


class _Place(msgspec.Struct, frozen=True):
    """A workspace with its tools."""

    workspace: Workspace
    tools: dict[str, Tool]
    instructions: FolderInstructions
    approver: FileApprover


class Hand:
    """The tools of one session and its sub-agents in a folder."""

    def __init__(self, folder: Path, setup: Setup, stance: Stance, first_command: int = 1) -> None:
        """Raises ConfigError if the sandbox that the settings require does not work here."""
        sandbox = SandboxSettings(setup.sandbox, setup.pass_env, setup.allow_hosts)
        self.settings = Settings(
            permissions=PermissionSettings(folders=setup.folders, secrets=setup.secrets), sandbox=sandbox
        )
        self._attachment_bytes = setup.attachment_bytes
        self.workspace = Workspace(folder)
        self.workspace.programs = Programs(self.settings.permissions.working_folders(self.workspace.folder))
        self.workspace.background.count_from(first_command)
        self._base = user_policy(self.settings, self.workspace, None)
        self.permissions = PermissionApprover(self._base, cwd=lambda: self.workspace.shell_cwd)
        self.permissions.command = self.workspace.background.find
        self.permissions.permit(self.workspace)
        self.session_tools = SessionTools(self.settings, self.workspace.folder, self.permissions, ())
        self.session_tools.remove_leftovers()
        self.threads = Threads()
        self._places: dict[str, _Place] = {"": self._equipped(self.workspace, self.permissions)}
        self.use(stance)

    @property
    def folder(self) -> Path:
        return self.workspace.folder

    def welcome(self) -> Welcome:
        """Return the first answer. Tries the sandbox."""
        tools = self.session_tools
        return Welcome(VERSION, str(self.folder), tools.sandbox is not None, tools.sandbox_note)

    def use(self, stance: Stance) -> None:
        """Decide by these permissions from now on. Raises ConfigError for a rule that is none."""
        self.permissions.use_policy(self._policy(stance))

    def _policy(self, stance: Stance) -> Policy:
        base = self._base
        allow = (msgspec.structs.replace(Rule.parse(text), shared=shared) for text, shared in stance.allow)
        return msgspec.structs.replace(
            self.permissions.policy,  # it knows the sandbox
            mode=stance.mode,
            allow=(*base.allow, *allow),
            ask=(*base.ask, *map(Rule.parse, stance.ask)),
            deny=(*base.deny, *map(Rule.parse, stance.deny)),
            accepted=stance.accepted,
        )

    def allow_reading(self, rules: list[str]) -> None:
        """Let files of skills be read without a question."""
        self._base = self._base.allowing(rules)
        self.permissions.allow(rules)

    def judge(self, request: Judge) -> Judged:
        """Decide about a call."""
        call, current = self._pending(request.call), self.permissions.policy
        if request.stance:
            self.permissions.use_policy(self._policy(request.stance))
        try:
            decision = self.permissions.decide(call)
        finally:
            if request.stance:
                self.permissions.use_policy(
                    msgspec.structs.replace(
                        current, sandboxed=self.permissions.sandboxed, doubts=self.permissions.policy.doubts
                    )
                )
        return Judged(decision, self.permissions.preview(call)) if decision.verdict == "ask" else Judged(decision)

    async def run(self, request: Run, reply: Reply) -> Done:
        """Run a call that the session has allowed, or that its rules allow."""
        call = request.call
        place, pending = self._place(call), self._pending(call)
        tool = place.tools[call.tool]
        grant = self._grant_by_rules(pending, call) if request.if_allowed else Grant(request.agreed, request.unasked)
        if grant is None:
            return Done("", did_run=False)
        self.permissions.grant(pending, grant)
        ref = CallRef(call.id, request.key, request.session, request.reply)
        context: ToolContext = ToolContext(
            ref, self.folder, self.threads, reply.progress, result_characters=request.characters
        )
        try:
            result = await tool.invoke(call.input, context)
        except BaseException:
            context.cancel()
            raise
        found = () if result.is_error else await self.threads.run(place.instructions.found, call.tool, call.input)
        done = await self._sent(result, pending.use, place, reply)
        return msgspec.structs.replace(
            done, instructions=tuple((str(each.path), each.text) for each in found), cwd=str(place.workspace.shell_cwd)
        )

    def _grant_by_rules(self, pending: PendingCall, call: CallToDo) -> Grant | None:
        """Return how the rules allow a call that is sure to change nothing; None if they do not."""
        decision = self.permissions.decide(pending)
        is_sure = call.tool != "Bash" or decision.unasked or self.permissions.sandboxed
        return Grant((), decision.unasked) if decision.verdict == "allow" and call.only_looks and is_sure else None

    async def _sent(self, result: ToolResult, use: ToolUseBlock, place: _Place, reply: Reply) -> Done:
        """Send the files of a result, and return the rest of it."""
        given = [*result.attachments, *([result.whole] if result.whole else [])][:MOST_FILES]
        number = 0
        files: list[FileInfo] = []
        for attachment in given:
            sent = await self.send_file(attachment, number, reply, (place.approver, use))
            number += not sent.problem
            files.append(sent)
        whole = files.pop() if result.whole and len(files) == len(given) and files else None
        return Done(result.text, result.is_error, result.is_json, result.details, result.note, tuple(files), whole)

    async def send_file(
        self, attachment: Attachment, number: int, reply: Reply, judged: tuple[FileApprover, ToolUseBlock] | None = None
    ) -> FileInfo:
        """Send the bytes of a file. `judged`: who decides about a file by path, and for which call."""
        info = FileInfo(number, attachment.mime_type, attachment.name, attachment.description)
        try:
            file, real = await self.threads.run(self._opened, attachment)
        except AttachmentError as error:
            return msgspec.structs.replace(info, problem=str(error))
        with file:
            if judged and real:
                approver, use = judged
                if refusal := denial_in(await approver.attach(use, str(attachment.source), real)):
                    return msgspec.structs.replace(info, problem=f"{attachment.label}: {refusal}")
            await reply.chunk(number, b"")  # an empty file is one, too
            left = self._attachment_bytes
            while data := await self.threads.run(file.read, min(CHUNK, left)):
                await reply.chunk(number, data)
                left -= len(data)
        return info

    def _opened(self, attachment: Attachment) -> tuple[BinaryIO, str]:
        """Return an open file, and its path if it has one. Raises AttachmentError."""
        if isinstance(attachment.source, bytes):
            return attachment.open(self._attachment_bytes), ""
        held = attachment.held(self._attachment_bytes)
        assert held.file
        return held.file, held.real

    def commands(self) -> tuple[CommandState, ...]:
        return tuple(
            CommandState(
                each.number, each.command, each.access, each.seconds, each.running, each.exit_code, each.ended_by_user
            )
            for each in self.workspace.background
        )

    def leave(self, workspace: str) -> None:
        """Close the workspace of a sub-agent."""
        if workspace and (place := self._places.pop(workspace, None)):
            place.workspace.close()

    def close(self) -> None:
        """End everything that runs."""
        for place in self._places.values():
            place.workspace.close()

    def _pending(self, call: CallToDo) -> PendingCall:
        if call.tool not in HANDS_TOOLS:
            raise HandsError(f"there is no tool {call.tool[:80]!r} here")
        place = self._place(call)
        use = ToolUseBlock(call.id, call.tool, call.input)
        return PendingCall(use, place.tools[call.tool].effect, lambda: place.workspace.shell_cwd, call.workspace)

    def _place(self, call: CallToDo) -> _Place:
        """Return the workspace of a call, which its first call makes."""
        place = self._places.get(call.workspace)
        if place is None:
            if len(self._places) >= MOST_WORKSPACES:
                raise HandsError(f"{MOST_WORKSPACES:,} workspaces are the most")
            workspace = self.workspace.for_subagent()
            approver = self.permissions.on_behalf_of(call.workspace, lambda: workspace.shell_cwd)
            approver.permit(workspace)
            place = self._places[call.workspace] = self._equipped(workspace, approver)
        self._return_to(place.workspace, call.cwd)
        return place

    def _return_to(self, workspace: Workspace, cwd: str) -> None:
        """Let the shell of a new process begin where that of the former one was."""
        real = Path(os.path.realpath(cwd)) if cwd else workspace.folder
        is_new = workspace.shell_cwd == workspace.folder
        if is_new and real != workspace.folder and real.is_relative_to(workspace.folder) and real.is_dir():
            workspace.shell_cwd = real

    def _equipped(self, workspace: Workspace, approver: FileApprover) -> _Place:
        tools = {tool.name: tool for tool in self.session_tools.toolbox(workspace, HANDS_TOOLS)}
        return _Place(workspace, tools, self.session_tools.instructions(workspace), approver)
