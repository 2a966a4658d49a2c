"""A folder with links and secrets, outside things around it, and a short way to ask for a decision."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrider.coding.access import Access
from outrider.coding.permissions.decision import Call, Decision, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.rules import Rule
from outrider.coding.toolbox import ALL_NAMES
from outrider.tools.tool import Effect

EFFECTS: dict[str, Effect] = {"Read": "read", "Glob": "read", "Grep": "read", "Todo": "read", "WebFetch": "read"}


class Ground:
    """Where escapes are tried: `work` is the folder, `outside` lies beside it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.work = self.root / "work"
        self.outside = self.root / "outside"
        for folder in ("src/deep", "docs", ".git", ".ssh", ".outrider", "keys", "has space"):
            (self.work / folder).mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "sub").mkdir()
        for name in ("notes.txt", "src/main.py", "src/deep/x.py", "docs/a.md", "has space/b.txt", "-n", ".env.example"):
            (self.work / name).write_text("plain\n")
        for name in (".env", ".env.local", "server.pem", "keys/id_rsa", ".git/config", ".ssh/config", "src/.env"):
            (self.work / name).write_text("SECRET-CONTENT\n")
        (self.work / ".outrider/config.toml").write_text("")
        (self.outside / "other.txt").write_text("OUTSIDE-CONTENT\n")
        links = {
            "to_env": ".env",
            "to_to_env": "to_env",
            "to_outside": "../outside",
            "to_file": "../outside/other.txt",
            "to_root": "/",
            "to_loop": "to_loop",
            "loop_a": "loop_b",
            "loop_b": "loop_a",
            "to_git": ".git",
            "to_src": "src",
            "to_nowhere": "../outside/not_yet",
            "src/up": "..",
            "to_settings": ".outrider",
        }
        for name, target in links.items():
            (self.work / name).symlink_to(target)

    def policy(
        self,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        *,
        sandboxed: bool = False,
    ) -> Policy:
        """A policy for the folder, from the texts of its rules."""
        rules = [tuple(map(Rule.parse, each)) for each in (allow, ask, deny)]
        return Policy(mode=mode, folder=self.work, allow=rules[0], ask=rules[1], deny=rules[2], sandboxed=sandboxed)

    def decide(self, policy: Policy, tool: str, cwd: Path | None = None, **input: Any) -> Decision:
        """What is decided of a call."""
        call = Call(tool, EFFECTS.get(tool, "write"), input, cwd or self.work, tool in ALL_NAMES)
        return decide(policy, call)

    def bash(
        self,
        command: str,
        mode: Mode = "ask",
        *,
        access: Access = "read",
        sandboxed: bool = False,
        **rules: Sequence[str],
    ) -> Decision:
        """What is decided of a command line."""
        return self.decide(self.policy(mode, sandboxed=sandboxed, **rules), "Bash", command=command, access=access)
