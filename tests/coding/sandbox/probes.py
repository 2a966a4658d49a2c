"""Ways out of a sandbox, tried one after the other. Run alone as a command: prints the names of those that succeeded.

The argument is a file with the `World` of the test as JSON. Only the standard library is imported, because the command
runs as another user too.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
IS_X86 = os.uname().machine == "x86_64"
EVIL = '[core]\n\tfsmonitor = "touch /tmp/evil"\n'


def call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    return int(libc.syscall(ctypes.c_long(x86_64 if IS_X86 else aarch64), *arguments))


class Probes:
    def __init__(self, world: dict[str, Any]) -> None:
        self.folder, self.outside, self.home = (Path(world[name]) for name in ("folder", "outside", "home"))
        self.world = world

    # Files

    def write_in_the_folder(self) -> bool:
        (self.folder / "made").write_text("x")
        return True

    def write_below_the_folder(self) -> bool:
        (self.folder / "lib" / "made").write_text("x")
        return (self.folder / "lib" / "made").read_text() == "x"

    def write_outside(self) -> bool:
        (self.outside / "made").write_text("x")
        return True

    def truncate_outside(self) -> bool:
        os.truncate(self.outside / "file", 0)
        return True

    def change_mode_outside(self) -> bool:
        (self.outside / "file").chmod(0o777)
        return True

    def change_times_outside(self) -> bool:
        os.utime(self.outside / "file", (1, 1))
        return True

    def rename_outside(self) -> bool:
        (self.outside / "second").rename(self.outside / "third")
        return True

    def link_outside_file(self) -> bool:
        os.link(self.outside / "file", self.folder / "src" / "hard-link")
        (self.folder / "src" / "hard-link").write_text("changed")
        return True

    def write_through_a_link(self) -> bool:
        (self.folder / "src" / "link").symlink_to(self.outside)
        (self.folder / "src" / "link" / "through-link").write_text("x")
        return True

    def leave_a_preload_behind(self) -> bool:
        with open(self.home / ".bashrc", "a") as file:
            file.write("export LD_PRELOAD=/tmp/evil.so\n")
        return True

    def write_to_a_pipe_outside(self) -> bool:
        os.close(os.open(self.outside / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        return True

    def read_a_temporary_file_of_others(self) -> bool:
        return "canary" in Path(self.world["temporary_file"]).read_text()

    # Git and configuration

    def replace_git(self) -> bool:
        git = self.folder / ".git"
        git.rename(self.folder / ".git2")
        shutil.copytree(self.folder / ".git2", git)
        with open(git / "config", "a") as file:
            file.write(EVIL)
        return True

    def change_git_config(self) -> bool:
        with open(self.folder / ".git" / "config", "a") as file:
            file.write(EVIL)
        return True

    def add_a_hook(self) -> bool:
        (self.folder / ".git" / "hooks").mkdir(exist_ok=True)
        (self.folder / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
        return True

    def replace_workflows(self) -> bool:
        (self.folder / ".github").rename(self.folder / ".github2")
        (self.folder / ".github" / "workflows").mkdir(parents=True)
        (self.folder / ".github" / "workflows" / "ci.yml").write_text("evil")
        return True

    def create_editor_tasks(self) -> bool:
        (self.folder / ".vscode").mkdir()
        (self.folder / ".vscode" / "tasks.json").write_text("evil")
        return True

    def create_a_file_of_direnv(self) -> bool:
        (self.folder / ".envrc").write_text("evil")
        return True

    def create_a_repository_in_the_second_folder(self) -> bool:
        git = Path(self.world["second"]) / ".git"
        git.mkdir()
        (git / "config").write_text(EVIL)
        return True

    # Secrets

    def read_a_key_at_home(self) -> bool:
        return "canary" in (self.home / ".ssh" / "id_rsa").read_text()

    def read_a_token_at_home(self) -> bool:
        return "canary" in (self.home / ".netrc").read_text()

    def read_env_in_the_folder(self) -> bool:
        return "canary" in (self.folder / ".env").read_text()

    def read_env_below_the_folder(self) -> bool:
        return "canary" in (self.folder / "src" / ".env").read_text()

    def read_env_after_a_rename(self) -> bool:
        (self.folder / "src" / ".env").rename(self.folder / "src" / "readable")
        text = (self.folder / "src" / "readable").read_text()
        (self.folder / "src" / "readable").rename(self.folder / "src" / ".env")
        return "canary" in text

    def read_env_after_a_link(self) -> bool:
        os.link(self.folder / "src" / ".env", self.folder / "src" / "linked")
        return "canary" in (self.folder / "src" / "linked").read_text()

    def read_a_login_of_another_agent(self) -> bool:
        return "canary" in (self.home / ".claude" / ".credentials.json").read_text()

    def read_a_history(self) -> bool:
        return "canary" in (self.home / ".psql_history").read_text()

    # Outrider's own files

    def read_the_log(self) -> bool:
        return "canary" in Path(self.world["data"], "sessions", "log.db").read_text()

    def read_a_snapshot(self) -> bool:
        return any("canary" in path.read_text() for path in Path(self.world["data"]).glob("sessions/snapshots/*/*"))

    def read_the_tokens_of_servers(self) -> bool:
        return "canary" in Path(self.world["settings"], "mcp.json").read_text()

    def read_data_inside_the_folder(self) -> bool:
        return "canary" in (self.folder / "data" / "log.db").read_text()

    def replace_data_inside_the_folder(self) -> bool:
        (self.folder / "data").rename(self.folder / "src" / "data2")
        (self.folder / "src" / "data2").rename(self.folder / "data")
        return True

    # Terminals and shared memory

    def open_a_terminal(self) -> bool:
        os.close(os.open(self.world["terminal"], os.O_RDWR | os.O_NOCTTY))
        return True

    def _by_key(self, x86_64: int, aarch64: int) -> int:
        return call(x86_64, aarch64, ctypes.c_int(self.world["key"]), ctypes.c_size_t(0), ctypes.c_int(0))

    def read_shared_memory(self) -> bool:
        if (found := self._by_key(29, 194)) < 0:
            return False
        libc.shmat.restype = ctypes.c_void_p
        return ctypes.string_at(libc.shmat(found, None, 0o10000), 6) == b"canary"

    def find_a_semaphore(self) -> bool:
        return self._by_key(64, 190) >= 0

    def find_a_queue(self) -> bool:
        return call(68, 186, ctypes.c_int(self.world["key"]), ctypes.c_int(0)) >= 0

    # Processes

    def read_an_environment(self) -> bool:
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if b"VICTIM_KEY=canary" in path.read_bytes():
                    return True
        return False

    def signal_the_victim(self) -> bool:
        os.kill(self.world["victim"], 0)
        return self.world["nap"].encode() in Path(f"/proc/{self.world['victim']}/cmdline").read_bytes()

    def trace_the_victim(self) -> bool:
        seize, victim = 0x4206, self.world["victim"]
        return call(101, 117, ctypes.c_long(seize), ctypes.c_long(victim), None, None) == 0

    def read_memory_of_the_victim(self) -> bool:
        line = Path(f"/proc/{self.world['victim']}/maps").read_text().splitlines()[0]
        return bool(line.strip())

    # Sockets

    def _send(self, family: int, kind: int, address: Any) -> bool:
        with socket.socket(family, kind) as client:
            client.settimeout(5)
            client.connect(address)
            client.sendall(b"hello")
        return True

    def connect_to_a_socket_at_home(self) -> bool:
        return self._send(socket.AF_UNIX, socket.SOCK_STREAM, self.world["home_socket"])

    def connect_to_a_socket_in_run(self) -> bool:
        return self._send(socket.AF_UNIX, socket.SOCK_STREAM, self.world["run_socket"])

    def connect_to_a_socket_in_tmp(self) -> bool:
        return self._send(socket.AF_UNIX, socket.SOCK_STREAM, self.world["tmp_socket"])

    def connect_to_an_abstract_socket(self) -> bool:
        return self._send(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.world["abstract_socket"])

    def send_from_a_pair_of_datagram_sockets(self) -> bool:
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with mine, other:
            mine.connect(self.world["datagram_socket"])
            mine.send(b"hello")
        return True

    def connect_to_loopback(self) -> bool:
        return self._send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", self.world["port"]))

    def send_to_loopback_by_udp(self) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(2)
            client.connect(("127.0.0.1", self.world["udp_port"]))
            client.send(b"hello")
            return client.recv(10) == b"answer"

    def open_a_vsock(self) -> bool:
        socket.socket(40, socket.SOCK_STREAM).close()
        return True

    def open_kernel_crypto(self) -> bool:
        socket.socket(38, socket.SOCK_SEQPACKET).close()
        return True

    # Doors into the kernel

    def write_core_pattern(self) -> bool:
        path = Path("/proc/sys/kernel/core_pattern")
        path.write_text(path.read_text())
        return True

    def open_sysrq(self) -> bool:
        os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
        return True

    def add_a_key(self) -> bool:
        return call(248, 217, b"user", b"outrider-probe", b"x", ctypes.c_size_t(1), ctypes.c_int(-2)) > 0

    def read_a_keyring(self) -> bool:
        return call(250, 219, ctypes.c_int(0), ctypes.c_int(-3), ctypes.c_int(0)) > 0

    def make_a_user_namespace(self) -> bool:
        child = os.fork()
        if not child:
            os._exit(0 if call(272, 97, ctypes.c_int(0x10000000)) == 0 else 1)
        return os.waitpid(child, 0)[1] == 0

    def _in_clone(self, result: int) -> bool:
        if result == 0:
            os._exit(0)
        if result > 0:
            os.waitpid(result, 0)
        return result > 0

    def clone_a_user_namespace(self) -> bool:
        flags = ctypes.c_ulong(0x10000000 | signal.SIGCHLD)
        return self._in_clone(call(56, 220, flags, None, None, None, None))

    def clone3_a_user_namespace(self) -> bool:
        arguments = struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
        return self._in_clone(call(435, 435, arguments, ctypes.c_size_t(64)))

    def mount_something(self) -> bool:
        target = os.fsencode(self.folder / "src")
        if libc.mount(b"none", target, b"tmpfs", 0, None) != 0:
            return False
        libc.umount2(target, 2)
        return True

    def make_a_device(self) -> bool:
        path = self.folder / "src" / "device"
        os.mknod(path, 0o20666, os.makedev(1, 5))
        return os.read(os.open(path, os.O_RDONLY), 1) == b"\0"

    def become_root(self) -> bool:
        program = self.world["setuid_program"]
        said = subprocess.run([program, "-u"], capture_output=True, text=True).stdout.strip()
        return os.getuid() != 0 and said == "0"

    def use_io_uring(self) -> bool:
        return call(425, 425, ctypes.c_uint(1), ctypes.create_string_buffer(256)) >= 0

    def use_bpf(self) -> bool:
        attributes = struct.pack("4I", 2, 4, 4, 1).ljust(128, b"\0")  # an array map
        return call(321, 280, ctypes.c_int(0), attributes, ctypes.c_uint(128)) >= 0

    def use_perf(self) -> bool:
        attributes = struct.pack("IIQ", 1, 128, 1).ljust(128, b"\0")
        me, any_cpu, no_group = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1)
        return call(298, 241, attributes, me, any_cpu, no_group, ctypes.c_ulong(0)) >= 0

    def use_userfaultfd(self) -> bool:
        return call(323, 282, ctypes.c_int(0)) >= 0

    def enter_a_namespace(self) -> bool:
        with open("/proc/self/ns/uts") as file:
            return call(308, 268, ctypes.c_int(file.fileno()), ctypes.c_int(0)) == 0

    def change_the_host_name(self) -> bool:
        name = os.uname().nodename.encode()
        return call(170, 161, name, ctypes.c_size_t(len(name))) == 0

    def type_into_the_terminal(self) -> bool:
        leader, follower = os.openpty()
        child = os.fork()
        if not child:
            with contextlib.suppress(OSError):
                os.setsid()
                fcntl.ioctl(follower, 0x540E, 0)
                fcntl.ioctl(follower, 0x5412, b"x")
                os._exit(0)
            os._exit(1)
        os.close(leader)
        return os.waitpid(child, 0)[1] == 0


def main() -> None:
    world = json.loads(Path(sys.argv[1]).read_text())
    probes = Probes(world)
    escaped = []
    for name in world["probes"] or [name for name in vars(Probes) if not name.startswith("_")]:
        with contextlib.suppress(Exception):
            if getattr(probes, name)():
                escaped.append(name)
    print(json.dumps(escaped))


if __name__ == "__main__":
    main()
