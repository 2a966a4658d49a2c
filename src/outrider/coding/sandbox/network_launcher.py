"""Run bwrap with a network of its own, whose only way out is a filtering proxy: this process. Run: `python -I -S`.

Arguments: what `host_filter.LaunchedProxy` says, as JSON; then the command that runs bwrap. A forked process enters the
network of the command, listens there and sends the socket back: nothing listens outside. The command waits until then.
The proxy ends with the command, and the command with it.

It starts before each command with access `network` and must be quick, so it loads three files instead of the package.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

NEW_USER, NEW_NET, GET_USER_NAMESPACE = 0x10000000, 0x40000000, 0xB701
PR_SET_PDEATHSIG = 1
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
libc = ctypes.CDLL(None, use_errno=True)


def load(path: str) -> Any:
    """Return the module in a file of the package, given relative to this one."""
    spec = spec_from_file_location(path, os.path.join(os.path.dirname(__file__), path))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def new_proxy(entries: "list[str]") -> Any:
    allowed, proxy = load("allowed_hosts.py"), load("host_proxy.py")
    addresses = load("../../providers/transport/addresses.py")
    hosts = allowed.AllowedHosts(entries)
    return proxy.HostProxy(hosts, addresses.why_private, proxy.system_addresses, tell)


def tell(sentence: str) -> None:
    """Print a sentence where the command prints its errors."""
    print(sentence, file=sys.stderr, flush=True)


def start(argv: "list[str]", info_handle: int, block_handle: int) -> "tuple[subprocess.Popen[bytes], int, int]":
    """Start bwrap. Return it with a handle of what it says about itself, and one of what lets it go on."""
    facts, told = os.pipe()
    waits, go = os.pipe()
    for handle, wanted in ((told, info_handle), (waits, block_handle)):
        os.dup2(handle, wanted)
        os.close(handle)
    # Handles that were inherited are passed on: the shell reports its last folder to one.
    started = subprocess.Popen(argv, close_fds=False, preexec_fn=die_with_parent)
    os.close(info_handle)
    os.close(block_handle)
    return started, facts, go


def die_with_parent() -> None:
    """End this process when its parent ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def child_of(facts: int) -> "int | None":
    """Return the process that bwrap has made, or None if bwrap has failed, and says why."""
    data = b""
    while b"}" not in data:
        part = os.read(facts, 4096)
        if not part:
            return None
        data += part
    return int(json.loads(data)["child-pid"])


def listener_in(process: int, port: int) -> socket.socket:
    """Return a socket that listens in the network of a process. Raises OSError."""
    ours, theirs = socket.socketpair()
    if (child := os.fork()) == 0:
        try:
            network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
            for handle, kind in ((fcntl.ioctl(network, GET_USER_NAMESPACE), NEW_USER), (network, NEW_NET)):
                if libc.setns(handle, kind):
                    raise OSError(ctypes.get_errno(), "setns")
            # The loopback interface may not be up yet; there is no other one.
            with socket.create_server(("0.0.0.0", port), backlog=128) as listener:
                socket.send_fds(theirs, [b"x"], [listener.fileno()])
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        handles = socket.recv_fds(ours, 1, 1)[1]
    os.waitpid(child, 0)
    if not handles:
        raise OSError(0, "the network of the command cannot be entered")
    return socket.socket(fileno=handles[0])


def main() -> int:
    """Run the command behind the proxy. Return its exit code, negative for the signal that ended it."""
    die_with_parent()
    asked = json.loads(sys.argv[1])
    proxy = new_proxy(asked["hosts"])
    started, facts, go = start(sys.argv[2:], asked["info_handle"], asked["block_handle"])
    for number in FORWARDED:
        signal.signal(number, lambda received, _: started.send_signal(received))
    process = child_of(facts)
    if process is not None:
        try:
            listener = listener_in(process, asked["port"])
        except OSError as error:
            started.kill()
            started.wait()
            sys.exit(f"outrider: {error.strerror}")
        threading.Thread(target=proxy.serve, args=[listener], daemon=True).start()
        os.write(go, b"x")
    return started.wait()


if __name__ == "__main__":
    code = main()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
