# mypy: disable-error-code="import-not-found, no-any-return"
"""Outrider itself, run by the Python that has it.

On the wire it always streams; with --stream the events are read as they come, else only the result of the run.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

# This file has the name of the package: what is beside it must not be found first.
sys.path.append(sys.path.pop(0))

import common

if TYPE_CHECKING:
    from outrider import Agent
    from outrider.providers.base import Provider

IMPORTS = """
from outrider import Agent, Limits, Session
from outrider.providers.adapters.openai_chat import OpenAIChat
"""


async def opened(options: common.Options) -> common.Run:
    """Sessions of one agent, without a limit of turns."""
    from outrider import Log, Session

    agent = _sender(options) if options.child else _agent(options)
    log = Log(_folder()) if options.more.log else None

    async def run() -> object:
        session = Session(agent) if log is None else Session.open(log, agent=agent).now()
        if options.stream:
            async for _ in session.stream("go"):
                pass
        else:
            result = await session.run("go")
            if result.status != "done":
                raise RuntimeError(result.error)
        return session

    return run


def _agent(options: common.Options) -> Agent:
    """One that calls the tool in each turn."""
    from outrider import Agent, Limits

    async def answer(path: str) -> str:
        """Answer at once."""
        return options.result()

    return Agent(model=_model(options), tools=[answer], limits=Limits(max_turns=None))


def _sender(options: common.Options) -> Agent:
    """One that sends a sub-agent out with each call: a session below its own, as Task sends them."""
    from outrider import Agent, ToolContext, spawn

    worker = _agent(replace(options, child=None))

    async def answer(path: str, context: ToolContext) -> str:
        """Send out a sub-agent."""
        with await spawn(context, worker) as child:
            await child.run("go")
        return options.result()

    return Agent(model=_model(options), tools=[answer])


def _model(options: common.Options) -> Provider:
    from outrider.providers.adapters.anthropic import Anthropic
    from outrider.providers.adapters.openai_chat import OpenAIChat
    from outrider.providers.adapters.openai_responses import OpenAIResponses

    if options.api == "anthropic":
        return Anthropic(options.model, base_url=options.url, api_key="k")
    if options.api == "responses":
        return OpenAIResponses(options.model, base_url=f"{options.url}/v1", api_key="k")
    return OpenAIChat(options.model, base_url=f"{options.url}/v1", api_key="k")


def _folder() -> Path:
    """Where the log is kept until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="outrider-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _imports(options: common.Options) -> str:
    if options.more.floor:
        return "import asyncio, msgspec"
    return IMPORTS + "import asyncio, aiohttp" * options.more.with_client


def extend(parser: argparse.ArgumentParser) -> None:
    """Whether each step is kept on the disk, and whether the import goes as far as the first request would."""
    parser.add_argument("--log", action="store_true", help="with the durable log")
    parser.add_argument("--floor", action="store_true", help="import only what nothing here could do without")
    parser.add_argument("--with-client", action="store_true", help="import what the first request imports, too")


if __name__ == "__main__":
    common.main("outrider", "outrider", _imports, opened, extend)
