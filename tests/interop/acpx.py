"""acpx, a client for the command line, as a person calls it."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Collection
from typing import Any

from tests.interop.scenes import Stage

Json = dict[str, Any]
OWN = ("initialize", "session/new", "session/resume")
"""Requests of acpx that are answered before the agent asks anything: its ids may be the same later."""


class Acpx:
    """The program, as a person calls it."""

    def __init__(self, program: tuple[str, str], stage: Stage) -> None:
        self._program = program
        self._stage = stage

    async def __call__(
        self,
        *arguments: str,
        folder: str = "project",
        policy: str = "--approve-all",
        exits: Collection[int] = (0,),
        watch: Callable[[Json, asyncio.subprocess.Process], None] = lambda line, process: None,
        **environment: str,
    ) -> list[Json]:
        """The lines that it printed, all of them JSON. `watch` is told of each."""
        flags = (policy, "--format", "json", "--json-strict", "--ttl", "120")
        where = ("--cwd", str(self._stage.folder / folder), "--agent", shlex.join(self._stage.agent))
        lines: list[Json] = []
        async with self._stage.running(*self._program, *flags, *where, *arguments, **environment) as process:
            assert process.stdout
            async for line in process.stdout:
                lines.append(json.loads(line))
                watch(lines[-1], process)
            assert process.stderr
            complaints = (await process.stderr.read()).decode()
            assert (await process.wait() in exits, complaints) == (True, ""), f"exit {process.returncode} after {lines}"
        return lines

    async def exec(self, prompt: str, **options: Any) -> Json:
        """One turn in a session of its own."""
        return turn(await self("exec", prompt, **options))


def turn(lines: list[Json]) -> Json:
    """What happened in the last turn of these lines."""
    stops = [line["result"]["stopReason"] for line in lines if "stopReason" in line.get("result", {})]
    told = [line["params"]["update"] for line in lines if line.get("method") == "session/update"]
    asked = [line["params"] for line in lines if line.get("method") == "session/request_permission"]
    methods = [line["method"] for line in lines if "method" in line]
    asks = {line["id"]: line["method"] for line in lines if line.get("method") in OWN}
    answers = (line for line in reversed(lines) if "result" in line and line["id"] in asks)
    results = {asks[line["id"]]: line["result"] for line in answers}
    printed = "".join(line["result"]["output"] for line in lines if "output" in line.get("result", {}))
    return {
        "stop": stops[-1],
        "updates": told,
        "permissions": asked,
        "methods": methods,
        "results": results,
        "printed": printed,
    }
