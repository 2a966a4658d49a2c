"""What CodeCompanion, the plugin for Neovim, says to an agent, message by message, by a program without Neovim.

The messages are those of its source: the capabilities that it announces, a login where the agent offers one, prompts of
text and files, unsaved buffers for `fs/read_text_file`, an empty text for a file that does not exist, null for a write,
and SIGKILL for the agent when Neovim is left. Run as neovim_client.py AGENT FOLDER SCENES; AGENT and SCENES are JSON.
It prints one JSON object a scene. Each scene starts the agent: the first makes a session, the others load it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Neovim:
    """One agent process, and the buffers of the editor."""

    def __init__(self, agent: list[str], folder: str) -> None:
        self.folder = folder
        self.buffers: dict[str, str] = {}
        """The text of files that are open and not saved, by path."""
        self.commands: list[str] = []
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        self._agent = subprocess.Popen(agent, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._id = 0

    def connect(self, session: str) -> str:
        """Introduce itself, log in if that is offered, and open the session."""
        about = self.ask(
            "initialize",
            protocolVersion=1,
            clientCapabilities={"fs": {"readTextFile": True, "writeTextFile": True}},
            clientInfo={"name": "CodeCompanion.nvim", "version": "1.0.0"},
        )
        if methods := about.get("authMethods"):
            self.ask("authenticate", methodId=methods[0]["id"])
        if session and about["agentCapabilities"]["loadSession"]:
            self.ask("session/load", cwd=self.folder, mcpServers=[], sessionId=session)
            return session
        opened = self.ask("session/new", cwd=self.folder, mcpServers=[])
        return str(opened["sessionId"])

    def ask(self, method: str, **params: Any) -> Json:
        """Send a request; answer what the agent asks until the response is there."""
        self._id += 1
        self._write(id=self._id, method=method, params=params)
        assert self._agent.stdout
        for line in self._agent.stdout:
            message = json.loads(line)
            if "method" in message:
                self._take(message)
            elif message["id"] == self._id:
                assert "error" not in message, message
                return dict(message["result"] or {})
        raise AssertionError(f"the agent ended before its response to {method}")

    def leave(self) -> None:
        """Leave Neovim: the agent is killed."""
        self._agent.kill()
        self._agent.communicate()

    def _write(self, **message: Any) -> None:
        assert self._agent.stdin
        self._agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._agent.stdin.flush()

    def _take(self, message: Json) -> None:
        params = message["params"]
        if message["method"] == "session/update":
            self.updates.append(params["update"])
            if params["update"]["sessionUpdate"] == "available_commands_update":
                self.commands = [command["name"] for command in params["update"]["availableCommands"]]
        elif message["method"] == "session/request_permission":
            self.asked.append(params)
            chosen = next(option["optionId"] for option in params["options"] if option["kind"] == "allow_once")
            self._write(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": chosen}})
        elif message["method"] == "fs/read_text_file":
            self._write(id=message["id"], result={"content": self._read(params)})
        elif message["method"] == "fs/write_text_file":
            Path(params["path"]).write_text(params["content"])
            self.buffers.pop(params["path"], None)
            self._write(id=message["id"], result=None)

    def _read(self, params: Json) -> str:
        path = Path(params["path"])
        text = self.buffers.get(params["path"]) or (path.read_text() if path.exists() else "")
        lines = text.splitlines(keepends=True)
        first = (params.get("line") or 1) - 1
        return "".join(lines[first:][: params.get("limit")])


def main(agent: list[str], folder: str, scenes: list[Json]) -> None:
    session = ""
    for scene in scenes:
        neovim = Neovim(agent, folder)
        neovim.buffers = dict(scene.get("buffers", {}))
        session = neovim.connect(session)
        loaded = len(neovim.updates)
        stops = [neovim.ask("session/prompt", sessionId=session, prompt=blocks) for blocks in scene["prompts"]]
        neovim.leave()
        about = {"session": session, "commands": neovim.commands, "asked": neovim.asked}
        stopped = [stop["stopReason"] for stop in stops]
        print(json.dumps({**about, "loaded": neovim.updates[:loaded], "stops": stopped, "updates": neovim.updates}))


main(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
