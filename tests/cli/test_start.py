"""What `-p` has imported when its first request leaves: every module costs time before the answer begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.program import clean_environment

ASK = r"""
import os, socket, sys, threading
from outrider.cli import main

def serve():
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(65536).startswith(b"POST"):
                with open("modules", "w") as file:
                    print(*list(sys.modules), file=file)
                os._exit(0)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
sys.exit(main(["-p", "What is 2+2?", "--model", f"http://127.0.0.1:{listener.getsockname()[1]}/v1#any"]))
"""
LIBRARIES = {"PIL", "jsonschema_rs", "prompt_toolkit", "pypdf", "rich", "wcmatch"}
FOR_CALLS = {
    "outrider.coding.sandbox.bubblewrap",
    "outrider.coding.sandbox.available",
    "outrider.coding.toolbox.files.rich_files",
    "outrider.coding.toolbox.shell.background",
    "outrider.coding.toolbox.shell.terminal_command",
}
FOR_OTHER_RUNS = {
    "outrider.log.copying",
    "outrider.log.passage_tables",
    "outrider.log.usage_tables",
    "outrider.runtime.structured_output",
    "outrider.runtime.titling",
}


def test_a_request_leaves_before_modules_are_imported_that_it_does_not_need(tmp_path: Path) -> None:
    environment = clean_environment() | {"OUTRIDER_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", ASK], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path,
        env=environment, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    loaded = set((tmp_path / "modules").read_text().split())
    assert "httptools" in loaded
    assert loaded & (LIBRARIES | FOR_CALLS | FOR_OTHER_RUNS) == set()
