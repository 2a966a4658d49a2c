"""One trial of our agent with Harbor's own classes, run by a Python that has Harbor. Prints what Harbor knows of it.

No container engine is needed: the environment is a folder of this machine, in which commands run as they would inside
of a container. Paths of containers (/installed-agent, /logs) are replaced by ones below the folder.
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult  # type: ignore[import-not-found,unused-ignore]
from harbor.models.agent.context import AgentContext  # type: ignore[import-not-found,unused-ignore]

from harbor_agent import OutriderAgent


class FolderEnvironment(BaseEnvironment):  # type: ignore[misc,unused-ignore]
    """Runs commands in a folder."""

    default_user = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def type() -> str:
        return "folder"

    def _validate_definition(self) -> None: ...

    async def start(self, force_build: bool) -> None: ...

    async def stop(self, delete: bool) -> None: ...

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        await asyncio.to_thread(shutil.copyfile, source_path, self._folder / target_path.lstrip("/"))

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None: ...

    async def download_file(self, source_path: str, target_path: Any) -> None: ...

    async def download_dir(self, source_dir: str, target_dir: Any) -> None: ...

    async def exec(
        self, command: str, cwd: Any = None, env: Any = None, timeout_sec: Any = None, user: Any = None
    ) -> Any:
        for place in ("/installed-agent", "/logs"):
            command = command.replace(place, str(self._folder / place[1:]))
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            cwd=self._folder / "app",
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._folder), **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        return ExecResult(stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode)


class FolderAgent(OutriderAgent):
    """The example's agent, with this Python instead of one of a container's packages."""

    async def ensure_system_dependencies(self, environment: Any, names: Any) -> None: ...


async def main(folder: Path, wheel: str, instruction: str) -> None:
    for name in ("app", "logs/agent", "installed-agent"):
        (folder / name).mkdir(parents=True)
    (folder / "app" / "notes.txt").write_text("The total is 42.\n")
    agent = FolderAgent(logs_dir=folder / "logs/agent", model_name="demo", wheel=wheel)
    environment = FolderEnvironment(folder)
    await agent.setup(environment)
    context = AgentContext()
    await agent.run(instruction, environment, context)
    agent.populate_context_post_run(context)
    print(json.dumps({"version": agent.version(), **context.model_dump()}))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
