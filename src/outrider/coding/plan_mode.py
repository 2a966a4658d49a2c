"""Plan mode: the model is told, only tools that read are offered, and ExitPlan asks whether to carry out a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial

from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.question import Mode, mode_after
from outrider.coding.remote.questions import plan_body
from outrider.coding.toolbox import EXIT_PLAN
from outrider.coding.toolbox.todo import LONGEST_STEP, MOST_STEPS
from outrider.log.questions import Answer
from outrider.prompts import prompt
from outrider.runtime.toolset import Offer
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

LONGEST_PLAN = 50_000
"""Characters of a plan. Someone has to read it."""
_BUILT_IN = ("Bash", "Todo")
"""Built-in tools that are offered though they can do more than read: the approver denies what is more."""
_STEP = re.compile(r"(?:(\d{1,3}[.)])|[-*+])\s+(\S.*)")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


class PlanMode:
    """What the requests of a session offer in each permission mode."""

    def __init__(self, permissions: PermissionApprover, reading_task: Callable[[], Tool | None]) -> None:
        """`reading_task` returns Task with the profiles that only read, if there is one."""
        self._permissions = permissions
        self._reading_task = reading_task
        self._tool = make_tool(
            self._exit,
            name=EXIT_PLAN,
            built_in=True,
            description=prompt("exit_plan_tool"),
            effect="read",
            concurrent=False,
            timeout=math.inf,  # a person has to read it
            lasting="plan",
        )
        self.use_mode: Callable[[Mode], None] = partial(setattr, permissions, "mode")
        """Changes the permission mode, as the user could."""
        self._planning = Offer((self._tool,), self._reading_form, reminder=prompt("plan_mode"))
        self._working = Offer((self._tool,), lambda tool: None if tool is self._tool else tool)

    def offer(self) -> Offer:
        """Return what the next request offers."""
        return self._planning if self._permissions.mode == "plan" else self._working

    def _reading_form(self, tool: Tool) -> Tool | None:
        if tool.built_in and tool.name == "Task":
            return self._reading_task()
        return tool if reads(tool) else None

    async def _exit(self, context: ToolContext, plan: str) -> ToolResult:
        if not plan.strip() or len(plan) > LONGEST_PLAN:
            problem = f"has {len(plan):,} characters, and {LONGEST_PLAN:,} are the most" if plan.strip() else "is empty"
            return ToolResult(f"The plan was not shown: it {problem}.", is_error=True)
        if not self._permissions.can_ask and self._permissions.mode == "plan":
            return ToolResult(plan, is_error=True, final=True)  # the answer of the run; nothing is approved
        if not self._permissions.can_ask:
            return ToolResult("Plan mode is off, and nobody can approve a plan: go on without it.", is_error=True)
        answer: Answer = await context.pose(plan_body(plan))
        before = self._permissions.mode
        if (chosen := mode_after(answer.option, before)) != before:
            self.use_mode(chosen)
        return self._result(plan, answer)

    def _result(self, plan: str, answer: Answer) -> ToolResult:
        match answer.option:
            case "go" | "edits":
                return self._approved(plan)
            case "change":
                said = f": {answer.words}" if answer.words else ", and has not said how yet. Ask what to change."
                return ToolResult(f"The user wants another plan{said}", is_error=True)
        return ToolResult("The user said no to the plan.", is_error=True, final=True)

    def _approved(self, plan: str) -> ToolResult:
        steps = [{"content": step, "status": "pending"} for step in steps_of(plan)]
        text = f"The plan is approved. Plan mode is off; the permission mode is {self._permissions.mode}. Carry it out."
        return ToolResult(text, details={"todos": steps} if steps else None)


def reads(tool: Tool) -> bool:
    """Return whether plan mode offers a tool. About one that stands for others, the approver decides by the other."""
    return tool.effect == "read" or bool(tool.stands_for) or (tool.built_in and tool.name in _BUILT_IN)


def steps_of(plan: str) -> list[str]:
    """Return the steps of a plan in Markdown: the items of its numbered lists; without any, those of its other lists.

    >>> steps_of("## Steps\\n1. Read it.\\n2. Change it.\\n   - carefully\\n\\n## Risks\\n- None.")
    ['Read it.', 'Change it.']
    """
    items = list(_items(plan))
    numbered = [text for is_numbered, text in items if is_numbered]
    return (numbered or [text for _, text in items])[:MOST_STEPS]


def _items(plan: str) -> Iterator[tuple[bool, str]]:
    """Yield each item of the outermost lists, outside code."""
    is_code = False
    for line in plan.splitlines():
        is_code ^= bool(_FENCE.match(line))
        if not is_code and (item := _STEP.match(line)):
            yield item[1] is not None, item[2].strip()[:LONGEST_STEP]
