"""The terminal program, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CLOSED = "http://127.0.0.1:9"
"""A port of this machine on which nothing answers."""


def outrider(
    *arguments: str, input: bytes = b"", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a clean environment: no keys, no proxies, no Ollama, unless they are given."""
    ended = subprocess.run(
        [sys.executable, "-m", "outrider", *arguments],
        input=input,
        cwd=cwd,
        capture_output=True,
        timeout=60,
        env=clean_environment() | environment,
    )
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def clean_environment() -> dict[str, str]:
    """That of the tests, without what a developer may have set."""
    unwanted = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
        and name not in unwanted
        and (not name.startswith("OUTRIDER_") or name == "OUTRIDER_HOME")
    } | {"OLLAMA_HOST": CLOSED}
