"""A real sshd on loopback: its own host key, port and authorized key, and an `ssh` with a configuration of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
needs_sshd = pytest.mark.skipif(
    not (SSHD and shutil.which("ssh") and shutil.which("ssh-keygen")),
    reason="there is no sshd here: scripts/sshd installs Debian's openssh-server",
)
SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv *
SetEnv XDG_CACHE_HOME={folder}/cache
"""
CLIENT = """\
Host there
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
  SendEnv *
"""


class SshServer:
    """Runs until the end of the block. `ssh there` reaches it with the PATH that `path` gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "cache").mkdir()

    def __enter__(self) -> SshServer:
        for name in ("host_key", "user_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True, timeout=30)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._fill("sshd_config", SERVER, port)
        self._fill("ssh_config", CLIENT, port)
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it, and a started service makes it
        assert SSHD
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")], stdout=log, stderr=log
            )
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    return self
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"sshd did not start: {(self.folder / 'log').read_text()}")

    def _fill(self, name: str, template: str, port: int) -> None:
        (self.folder / name).write_text(template.format(port=port, folder=self.folder, user=getpass.getuser()))

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._process.terminate()
        self._process.wait(30)

    @property
    def path(self) -> str:
        """A PATH whose `ssh` has the configuration of the test, as the user's own would."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        wrapper = programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)
        return f"{programs}:{os.environ['PATH']}"

    def cut(self) -> int:
        """Kill the processes of all connections, and return how many there were."""
        found = _children(self._process.pid)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return len(found)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in listed.read_text().split()] if listed.exists() else []
