"""Access `network` with `sandbox.allow_hosts`: real commands, a server on loopback in place of the internet."""

from __future__ import annotations

import asyncio
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.coding.sandbox.available import ClosedNetwork, HostFilter, filter_hosts, try_sandbox
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock
from outrider.coding.sandbox.sandbox import Confinement, Host, Sandbox
from tests.coding.sandbox.test_bubblewrap import stand_in
from tests.coding.sandbox.test_escapes import EXPECTED, working
from tests.coding.sandbox.world import PYTHON, as_user, mechanisms, new_world, users
from tests.coding.toolbox.shelling import Shelling, new_nap, sleepers, until

PATIENCE = 60


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """What the server serves."""
    folder = tmp_path / "site"
    (folder / "simple" / "tiny").mkdir(parents=True)
    (folder / "hello").write_text("hello")
    wheel = "tiny-1.0-py3-none-any.whl"
    (folder / "simple" / "tiny" / "index.html").write_text(f'<a href="/{wheel}">{wheel}</a>')
    with zipfile.ZipFile(folder / wheel, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    return folder


@pytest.fixture
def port(site: Path) -> Iterator[int]:
    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@functools.cache
def enterable() -> str:
    """Why the network of another process cannot be entered here, or ""."""
    found, state = try_sandbox()
    if not isinstance(found, Bubblewrap):
        return f"bubblewrap does not work here: {state}"
    with tempfile.TemporaryDirectory() as base:
        said = run(Path(base), HostFilter(found, ["pypi.org"]), ":").stderr
    return said if "cannot be entered" in said else ""


def filtered(*hosts: str) -> HostFilter:
    if why := enterable():
        pytest.skip(why)
    found, _ = try_sandbox()
    assert isinstance(found, Bubblewrap)
    return HostFilter(found, hosts)


def places(base: Path) -> Confinement:
    for name in ("work", "own"):
        (base / name).mkdir(exist_ok=True)
    return Confinement(folder=base / "work", cwd=base / "work", temporary=base / "own")


def run(base: Path, sandbox: Sandbox, script: str) -> subprocess.CompletedProcess[str]:
    argv = sandbox.wrap(["/bin/sh", "-c", script], "network", places(base))
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)


def test_the_setting_is_applied_where_it_works() -> None:
    sandbox = filtered("pypi.org")
    found, state = filter_hosts(sandbox._bubblewrap, ["pypi.org"], {})
    if "did not answer" not in state:  # on a very busy machine
        assert isinstance(found, HostFilter)
        assert state == "access network reaches the hosts of sandbox.allow_hosts over HTTP and HTTPS"


# What programs do


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_curl_reaches_allowed_hosts_only(tmp_path: Path, port: int) -> None:
    sandbox, url = filtered(f"127.0.0.1:{port}"), f"http://127.0.0.1:{port}/hello"
    ended = run(tmp_path, sandbox, f"curl -sS {url}; curl -sSp {url}")  # plain, and through a tunnel
    assert (ended.stdout, ended.stderr) == ("hellohello", "")
    ended = run(tmp_path, sandbox, "curl -sS https://pypi.org/")
    sentence = "outrider: pypi.org:443 is not reached: the setting sandbox.allow_hosts does not name it.\n"
    assert ended.returncode
    assert ended.stderr.startswith(sentence)


def test_pip_downloads(tmp_path: Path, port: int) -> None:
    python = f"{sys.base_prefix}/bin/python3"
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("there is no pip")
    options = f"--isolated --no-cache-dir --disable-pip-version-check --trusted-host 127.0.0.1 -i http://127.0.0.1:{port}/simple"
    ended = run(tmp_path, filtered(f"127.0.0.1:{port}"), f"{python} -m pip download {options} tiny")
    assert ended.returncode == 0, ended
    assert (tmp_path / "work" / "tiny-1.0-py3-none-any.whl").exists()


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
def test_git_lists_a_remote(tmp_path: Path, site: Path, port: int) -> None:
    script = "git init -q x && cd x && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    script += f" && git clone -q --bare . {site}/x.git && cd {site}/x.git && git update-server-info"
    subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, check=True, env={**os.environ, "HOME": str(tmp_path)})
    ended = run(tmp_path, filtered(f"127.0.0.1:{port}"), f"git ls-remote http://127.0.0.1:{port}/x.git")
    assert "\tHEAD\n" in ended.stdout, ended
    ended = run(tmp_path, filtered("pypi.org"), "git ls-remote https://github.com/x/y")
    assert "github.com:443 is not reached: the setting sandbox.allow_hosts" in ended.stderr


def test_a_name_is_looked_up_outside(tmp_path: Path, port: int) -> None:
    fetch = f"import urllib.request as u; print(u.urlopen('http://localhost:{port}/hello').read())"
    ended = run(tmp_path, filtered(f"localhost:{port}"), f'{PYTHON} -I -c "{fetch}"')
    assert ended.stdout == "b'hello'\n", ended


def test_a_command_reaches_its_own_servers(tmp_path: Path) -> None:
    script = """
import http.server, threading, urllib.request
with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").status)
    server.shutdown()
"""
    (places(tmp_path).folder / "serve.py").write_text(script)
    ended = run(tmp_path, filtered("pypi.org"), f"{PYTHON} -I serve.py 2>/dev/null")
    assert ended.stdout == "200\n", ended


# Escapes


DIRECT = """
import socket, sys
def tcp(family, *address):
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect(address)
def udp(family, *address):
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", address)
for name, attempt in {
    "loopback": lambda: tcp(socket.AF_INET, "127.0.0.1", PORT),
    "metadata": lambda: tcp(socket.AF_INET, "169.254.169.254", 80),
    "public": lambda: tcp(socket.AF_INET, "192.0.2.1", 443),
    "IPv6": lambda: tcp(socket.AF_INET6, "2001:db8::1", 443),
    "name server": lambda: udp(socket.AF_INET, "192.0.2.1", 53),
    "name server over IPv6": lambda: udp(socket.AF_INET6, "2001:db8::1", 53),
    "look-up": lambda: socket.getaddrinfo("pypi.org", 443),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "abstract": lambda: socket.socket(socket.AF_UNIX).connect("\\0x"),
    "interface": lambda: open("/proc/sys/net/ipv4/ip_forward", "w"),
}.items():
    try:
        if name in sys.argv[1:] or not sys.argv[1:]:
            attempt()
            print(name)
    except OSError:
        pass
"""


def test_nothing_is_reached_around_the_proxy(tmp_path: Path, port: int) -> None:
    (places(tmp_path).folder / "direct.py").write_text(DIRECT.replace("PORT", str(port)))
    sandbox = filtered(f"127.0.0.1:{port}", "pypi.org")
    ended = run(tmp_path, sandbox, f"{PYTHON} -I direct.py && grep -o '.*:' /proc/net/dev")
    assert (ended.stdout.split(), ended.returncode) == (["lo:"], 0), ended
    bare = subprocess.run([PYTHON, "-I", "direct.py", "loopback"], cwd=tmp_path / "work", capture_output=True)
    assert bare.stdout == b"loopback\n"


@pytest.mark.parametrize("user", users().values(), ids=users())
def test_no_escape_succeeds(user: int) -> None:
    with new_world(user) as world:
        if subprocess.run([*as_user(user), PYTHON, "-c", ""], capture_output=True).returncode:
            pytest.skip(f"the user cannot run {PYTHON}")
        inner = working("bubblewrap", world)
        assert isinstance(inner, Bubblewrap)
        sandbox = HostFilter(inner, ["pypi.org"], PYTHON)
        if error := world.run(["/bin/sh", "-c", ":"], sandbox, "network"):
            pytest.skip(f"the proxy does not work here: {error}")
        before = world.outside_state()
        assert world.escapes(sandbox, "network") == EXPECTED["bubblewrap", "write"]
        assert world.outside_state() == before


def test_the_command_inherits_nothing_of_the_launcher(tmp_path: Path) -> None:
    ended = run(tmp_path, filtered("pypi.org"), "ls /proc/self/fd; exit 7")
    assert (ended.stdout.split(), ended.returncode) == (["0", "1", "2", "3"], 7)


# The end


def launchers(mark: str) -> list[int]:
    """The processes that were started with this entry."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path("/proc", name, "cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


def test_the_proxy_ends_with_the_command(tmp_path: Path) -> None:
    nap, mark = new_nap(), f"m{new_nap()}.test"
    ended = run(tmp_path, filtered(mark), f"setsid sleep {nap} >/dev/null 2>&1 & echo done")
    assert ended.stdout == "done\n"
    assert (launchers(mark), sleepers(nap)) == ([], [])


@pytest.mark.parametrize("who", ["the launcher", "bwrap"])
async def test_what_is_killed_takes_the_rest_with_it(tmp_path: Path, who: str) -> None:
    nap, mark = new_nap(), f"m{new_nap()}.test"
    sandbox = filtered(mark)
    argv = sandbox.wrap(["/bin/sh", "-c", f"echo on; sleep {nap}; :"], "network", places(tmp_path))
    started = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert started.stdout
    assert await started.stdout.readline() == b"on\n"
    await until(lambda: sleepers(nap))
    if who == "bwrap":
        os.kill(child_of(started.pid), 9)
    else:
        started.kill()
    await started.wait()
    await until(lambda: not sleepers(nap) and not launchers(mark))


async def test_the_bash_tool_says_why_and_keeps_the_folder(tmp_path: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    (tmp_path / "project" / "a").mkdir(parents=True)
    shelling = Shelling(tmp_path / "project", filtered("pypi.org"))
    result = await shelling.run("cd a; curl -sS https://evil.example/", access="network")
    assert "evil.example:443 is not reached: the setting sandbox.allow_hosts does not name it." in result.text
    assert shelling.workspace.shell_cwd == shelling.workspace.folder / "a"
    shelling.workspace.close()


# Where hosts cannot be filtered


def test_without_the_setting_nothing_changes(tmp_path: Path) -> None:
    sandbox = Bubblewrap(stand_in(tmp_path), Host(""), b"")
    assert filter_hosts(sandbox, (), {}) == (sandbox, "")
    assert "--unshare-net" not in sandbox.wrap(["true"], "network", places(tmp_path))


@pytest.mark.parametrize(
    ("environment", "works", "why"),
    [
        ({"https_proxy": "http://p"}, True, "sandbox.allow_hosts does not work behind another proxy (https_proxy)"),
        ({}, False, "the proxy for sandbox.allow_hosts does not work (no bwrap)"),
    ],
)
def test_the_network_is_closed_where_the_proxy_does_not_work(
    tmp_path: Path, environment: dict[str, str], works: bool, why: str
) -> None:
    program = stand_in(tmp_path, "#!/bin/sh\n" + ("exit 0" if works else "echo no bwrap >&2; exit 1"))
    sandbox, state = filter_hosts(Bubblewrap(program, Host(""), b""), ["pypi.org"], environment)
    assert isinstance(sandbox, ClosedNetwork)
    assert state == f"access network has no network: {why}"
    assert "--unshare-net" in sandbox.wrap(["true"], "network", places(tmp_path))


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="Landlock is not here")
def test_with_landlock_the_network_is_closed_and_the_command_says_so(tmp_path: Path, port: int) -> None:
    sandbox, _ = filter_hosts(Landlock(Host(""), PYTHON), [f"127.0.0.1:{port}"], {})
    fetch = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/hello')"
    ended = run(tmp_path, sandbox, f'{PYTHON} -I -c "{fetch}"')
    assert ended.stderr.startswith(
        "outrider: access network has no network here: Landlock cannot hold commands to sandbox.allow_hosts.\n"
    )
    assert "URLError" in ended.stderr
