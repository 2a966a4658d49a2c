"""A process that plans in plan mode and is killed: while the plan is shown, after the answer, or after its result."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.workbench import Workbench
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call

PLAN = "# Greet\n\n1. Write `hello.txt`.\n2. Read it."


class Person:
    """Says yes to plans. Implements `Front`."""

    place = "in the terminal"

    def __init__(self, folder: Path, dies: str) -> None:
        self._dies = dies
        self.bench = Workbench(
            Settings(permissions=PermissionSettings(mode="plan")), folder, front_end=FrontEnd(self.ask, remote=self)
        )
        self.session: Session

    async def ask(self, _: Question) -> Answer:
        self._pass("asked")
        return Answer("go")

    def use_mode(self, mode: Mode) -> None:
        self.bench.use_mode(mode, self.session)
        self._pass("answered")

    def answered(self, text: str) -> None:
        raise AssertionError(text)

    async def say(self, text: str) -> None:
        raise AssertionError(text)

    def stop(self) -> None:
        raise AssertionError

    async def run(self, log: Log) -> None:
        def second(_: Request) -> Step:
            self._pass("requested")
            return "Never said."

        model = ScriptedModel([call("ExitPlan", plan=PLAN), second])
        self.session = self.bench.open(log, "plan-1", model=model, create=True)  # type: ignore[arg-type]
        await self.session.run("Plan it.")

    def _pass(self, point: str) -> None:
        if point == self._dies:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with Log(sys.argv[2]) as opened:
        asyncio.run(Person(Path(sys.argv[1]), sys.argv[3]).run(opened))
