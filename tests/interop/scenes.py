"""What every client is put through: the same folders, prompts and model answers, and what it reports of them.

A driver is a program in the client's own language. It is given the play as JSON, lets its client start the real
`outrider acp`, and prints one line of JSON for each scene. It ends by itself; what it complains of goes to stderr.
A recorder between the client and the agent writes down what both say, and the official schema judges each message.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.acp import official
from tests.cli.asking import MODEL, everywhere
from tests.cli.program import clean_environment
from tests.interop import recorder
from tests.modelserver import Answer, Held, ModelServer, Step

ROOT = Path(__file__).parents[2]
DEADLINE = 200.0
LINE_LIMIT = 32 * 1024 * 1024
NOTES = "The first line.\nThe second line.\n"
EDITED = "The first line.\nThe line that was changed.\n"
SAID = "Streamed in pieces, and shown as they come."
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
)
"""Two by two pixels, as PNG."""

BEGUN = "begun"
"""The file by which a command says that it runs."""
BOTH = "both"
"""The file by which the commands on the left and on the right are told that both of them run."""
ALIVE = "alive"
"""A named pipe that the command to be cancelled, and all that it starts, hold open as long as they live."""

PROMPTS = {
    "streamed": "Say something.",
    "read": "read notes.txt",
    "delegated": 'Delegate "read notes.txt" to a sub-agent',
    "allowed": "Change the second line.",
    "rejected": "Change it again.",
    "picture": "What is in the picture?",
    "cancelled": f"run `exec 9> {ALIVE}; touch {BEGUN}; echo started; sleep 60`",
    "left": f"run `touch {BEGUN}; until [ -e {BOTH} ]; do sleep 0.02; done; echo left met right`",
    "right": f"run `touch {BEGUN}; until [ -e {BOTH} ]; do sleep 0.02; done; echo right met left`",
    "long": "Say something long.",
    "command": "/greet Ada",
    "skill": "/tidy the shelf",
    "never": "Write it twice.",
    "look": "Look.",
    "french": "Answer in French.",
    "compact": "/compact the colours",
}
"""A command in a sandbox has process ids of its own and may see no folder but that of its session."""
SYSTEM_PROMPT = "Speak like a pirate."
CAPABILITIES = {"session": {"compaction": {}}, "auth": {"terminal": True}}
"""What an editor says that it can do when it tries the features."""


def edits() -> list[Step]:
    """What the model does when it is allowed to edit, and then when it is not."""
    again = {"file_path": "notes.txt", "old_string": "The first line.", "new_string": "Not wanted."}
    change = {"file_path": "notes.txt", "old_string": "The second line.", "new_string": "The line that was changed."}
    return [
        Answer("I read it first.", calls=(("toolu_read", "Read", {"file_path": "notes.txt"}),)),
        Answer("", calls=(("toolu_edit", "Edit", change),)),
        Answer("It is changed."),
        Answer("", calls=(("toolu_again", "Edit", again),)),
    ]


class Stage:
    """The folders, the model server and the environment of one client."""

    def __init__(self, folder: Path, home: str, server: ModelServer) -> None:
        self.server = server
        self.folder = folder
        self.project = folder / "project"
        for name in ("project", "left", "right", "recorded"):
            (folder / name).mkdir(exist_ok=True)
        (self.project / "notes.txt").write_text(NOTES)
        os.mkfifo(self.project / ALIVE)
        self._alive = os.open(self.project / ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        self.environment = clean_environment() | everywhere(server)
        self.environment |= {
            "PYTHONPATH": str(ROOT),  # for the drivers in Python, which another Python runs
            "OUTRIDER_MODEL": "demo",
            "HOME": home,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    @property
    def agent(self) -> list[str]:
        """The command of the agent, with the recorder before it."""
        return [sys.executable, recorder.__file__, str(self.folder / "recorded"), "outrider", "acp"]

    def check_messages(self) -> None:
        """Hold each message of the agents against the official schema."""
        files = list((self.folder / "recorded").iterdir())
        assert files, "no agent was started"
        for file in files:
            methods: dict[Any, str] = {}
            for line in file.read_bytes().splitlines():
                sender, message = line[:2], json.loads(line[2:])
                if sender == recorder.FROM_AGENT:
                    official.check_message(message, message.get("method") or methods[message["id"]], unstable=True)
                elif "method" in message and "id" in message:
                    methods[message["id"]] = message["method"]

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._alive)

    async def has_ended(self) -> None:
        """Wait until the command that was cancelled, and all that it started, have ended."""
        assert (self.project / BEGUN).exists()
        until = time.monotonic() + 20
        while self._is_held():
            assert time.monotonic() < until, f"{PROMPTS['cancelled']!r} still runs"
            await asyncio.sleep(0.02)

    def _is_held(self) -> bool:
        """Whether a process has the pipe open for writing."""
        try:
            return os.read(self._alive, 1) != b""
        except BlockingIOError:
            return True

    async def _introduce(self) -> None:
        """Tell the commands on the left and on the right when both have begun."""
        sides = [self.folder / "left", self.folder / "right"]
        while not all((side / BEGUN).exists() for side in sides):
            await asyncio.sleep(0.02)
        for side in sides:
            (side / BOTH).touch()

    @property
    def play(self) -> dict[str, Any]:
        """What a driver is told."""
        return {
            "agent": self.agent,
            "folders": {name: str(self.folder / name) for name in ("project", "left", "right")},
            "model": MODEL,
            "prompts": PROMPTS,
            "meta": {"systemPrompt": SYSTEM_PROMPT},
            "capabilities": CAPABILITIES,
            "picture": base64.b64encode(PICTURE).decode(),
        }

    async def drive(self, *command: str, **environment: str) -> dict[str, dict[str, Any]]:
        """Run a driver to its end; what it reported, by scene."""
        reports: dict[str, dict[str, Any]] = {}
        try:
            async with self.running(*command, json.dumps(self.play), **environment) as process:
                await self._follow(process, reports)
        except TimeoutError:
            raise AssertionError(f"it did not end; its scenes were {list(reports)}") from None
        return reports

    async def _follow(self, process: asyncio.subprocess.Process, reports: dict[str, dict[str, Any]]) -> None:
        assert process.stdout
        assert process.stderr
        async for line in process.stdout:
            report = json.loads(line)
            reports[report.pop("scene")] = report
            if "streaming" in reports:
                # The client has shown words of an answer whose rest is still held back.
                self.server.release.set()
        complaints = (await process.stderr.read()).decode()
        assert (await process.wait(), complaints) == (0, ""), f"{complaints}\nafter the scenes {list(reports)}"

    @asynccontextmanager
    async def running(self, *command: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A process that does not outlive the block; what it has started does only if it has ended by itself."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.project,
            env=self.environment | environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
        introducing = asyncio.create_task(self._introduce())
        try:
            async with asyncio.timeout(DEADLINE):
                yield process
        finally:
            introducing.cancel()
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def stage(folder: Path, steps: Sequence[Step] | None = None) -> AsyncIterator[Stage]:
    """A stage whose model plays the steps: by default something held back, the edits, and a word on a picture."""
    if steps is None:
        steps = [Held(Answer(SAID), "first delta"), *edits(), Answer("A picture.")]
    # Clients put sockets into their home, and the path of a socket has to be short.
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        async with ModelServer(steps) as server:
            with closing(Stage(folder, home, server)) as stage:
                yield stage
                stage.check_messages()
