"""Clients from npm: types made from the document, with three stories in Node; and the official client of AG-UI."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from outrider import Agent
from outrider.testing import ScriptedModel, call
from tests.interop.installing import npm_clients
from tests.serve.clients import client
from tests.serve.counting import refund
from tests.web.pages import started

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
TOKEN = "a-token-of-programs-00"


async def output(*command: str, cwd: Path, **environment: str) -> str:
    """Return what a program prints, which must succeed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    found, _ = await process.communicate()
    assert process.returncode == 0, found.decode()
    return found.decode()


async def test_a_client_with_types_of_the_document_runs_three_stories(tmp_path: Path) -> None:
    example = ROOT / "examples" / "typescript"
    packages = npm_clients(example, "typescript")
    project = tmp_path / "client"
    shutil.copytree(example, project, ignore=shutil.ignore_patterns("node_modules", "build"))
    (project / "node_modules").symlink_to(packages / "node_modules")
    (tokens := tmp_path / "tokens").write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    async with started("outrider", "serve", "--port", "0", "--token-file", str(tokens)) as program:
        url = (await program.line("^http://")).string.partition("/?")[0]
        for script in ("generate", "build"):
            await output("npm", "run", "-s", script, cwd=project, OUTRIDER_URL=url)
        (folder := tmp_path / "project").mkdir()
        told = {"OUTRIDER_URL": url, "OUTRIDER_TOKEN": TOKEN, "OUTRIDER_FOLDER": str(folder), "OUTRIDER_MODEL": "demo"}
        lines = (await output("npm", "run", "-s", "stories", cwd=project, **told)).splitlines()
    shown = [each for each in lines if not each.startswith("npm warn")]
    assert shown == [
        "answer: 4",
        "question: permission Read(/etc/host.conf)",
        "allowed: true",
        "found: 1 copied: user",
        "missing: 404 there is no session 'none'",
    ]


async def test_the_official_client_of_ag_ui_runs_and_resumes() -> None:
    packages = npm_clients(Path(__file__).parent / "npm", "ag-ui")
    script = ScriptedModel([["I ask.", call("refund", order=17)], "Done."])
    async with client(Agent(script, tools=[refund])) as ada:
        told = {"OUTRIDER_URL": ada.origin, "AG_UI_CLIENT": str(packages)}
        printed = await output("node", "agui.mjs", cwd=Path(__file__).parent / "npm", **told)
    found = json.loads(printed.splitlines()[-1])
    assert found["last"] == "RUN_FINISHED"
    assert found["said"] == "Done."
    assert found["roles"] == ["user", "assistant", "tool", "assistant"]
