"""A seccomp filter, built by hand: the system calls that a confined command cannot use.

The filter refuses Unix sockets, kernel keys, tracing, new namespaces, mounts, io_uring (which would do all of it behind
the filter's back), and everything that only administrators need. A call that is refused fails with EPERM; `clone3`
fails with ENOSYS, so that the C library uses `clone`, whose flags a filter can read. A program for another architecture
is killed, because its calls have other numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = _ERRNO | 1, _ERRNO | 38
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`. Both machines are little-endian: the low half of an argument is first."""

ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""The bit that marks a call of the x32 interface on x86_64."""

_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 5, 0xF
_NETLINK_ROUTE = 0
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into the terminal of the user."""

_FIELDS = ("x86_64", "aarch64")
_INSPECTED = {"socket": (41, 198), "socketpair": (53, 199), "clone": (56, 220), "ioctl": (16, 29)}
_REFUSED = {
    # Kernel keys, tracing and memory of other processes.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # Doors into the kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "syslog": (103, 116),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # Administration.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "reboot": (169, 142),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "create_module": (174, None),
    "uselib": (134, None),
    "_sysctl": (156, None),
}
"""Numbers on x86_64 and aarch64; None where the machine has no such call."""
_METADATA = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Calls that change owners, modes, times and attributes of files, which Landlock does not cover."""
_SYSTEM_V = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}
"""System V shared memory, semaphores and queues, and POSIX queues: without a namespace, they are those of the host."""
_CLONE3 = 435


def seccomp_filter(
    machine: str, *, internet: bool = True, metadata: bool = True, system_v: bool = True
) -> bytes | None:
    """Return the filter as bytes for the kernel, or None for a machine without a table.

    Without `internet`, no sockets of the internet families: needed where the command shares the host's network.
    Without `metadata`, no call that changes a file's owner, mode, times or attributes. Without `system_v`, no shared
    memory, semaphores and queues with keys: needed where the command shares those of the host.
    """
    if machine not in ARCHITECTURES:
        return None
    at = _FIELDS.index(machine)
    refused = {**_REFUSED, **({} if metadata else _METADATA), **({} if system_v else _SYSTEM_V)}
    program = _Program()
    program.load(_ARCHITECTURE)
    program.unless_equal(ARCHITECTURES[machine], "kill")
    program.load(_NUMBER)
    if machine == "x86_64":
        program.jump(_AT_LEAST, _X32, "kill")
    program.jump(_EQUAL, _CLONE3, "missing")
    for numbers in refused.values():
        if (number := numbers[at]) is not None:
            program.jump(_EQUAL, number, "refuse")
    for name, numbers in _INSPECTED.items():
        program.jump(_EQUAL, numbers[at], name)
    program.give("allow", _ALLOW)
    _inspect_arguments(program, internet)
    program.give("refuse", _EPERM)
    program.give("missing", _ENOSYS)
    program.give("kill", _KILL)
    return program.assemble()


def _inspect_arguments(program: _Program, internet: bool) -> None:
    """Check the arguments of the calls that are refused only in part."""
    program.label("socket")
    program.load(_ARGUMENTS)
    for family in (_AF_INET, _AF_INET6) if internet else ():
        program.jump(_EQUAL, family, "pass")
    program.unless_equal(_AF_NETLINK, "refuse")
    program.load(_ARGUMENTS + 16)
    program.unless_equal(_NETLINK_ROUTE, "refuse")
    program.give("pass", _ALLOW)
    # A pair is needed by many programs and leads nowhere, unless its sockets can be sent elsewhere: datagrams can.
    program.label("socketpair")
    program.load(_ARGUMENTS + 8)
    program.mask(_SOCK_TYPE)
    program.jump(_EQUAL, _SOCK_STREAM, "paired")
    program.unless_equal(_SOCK_SEQPACKET, "refuse")
    program.give("paired", _ALLOW)
    program.label("clone")
    program.load(_ARGUMENTS)
    program.jump(_ANY_BIT, _NEW_NAMESPACES, "refuse")
    program.give("cloned", _ALLOW)
    program.label("ioctl")
    program.load(_ARGUMENTS + 8)
    for request in _TERMINAL_INPUT:
        program.jump(_EQUAL, request, "refuse")
    program.give("asked", _ALLOW)


class _Program:
    """Classic BPF instructions with labels. Jumps go forwards, by at most 255."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str, bool]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, offset, "", False))

    def mask(self, bits: int) -> None:
        self._code.append((_AND, bits, "", False))

    def jump(self, test: int, value: int, label: str) -> None:
        self._code.append((test, value, label, True))

    def unless_equal(self, value: int, label: str) -> None:
        self._code.append((_EQUAL, value, label, False))

    def give(self, label: str, verdict: int) -> None:
        self.label(label)
        self._code.append((_RETURN, verdict, "", False))

    def assemble(self) -> bytes:
        packed = bytearray()
        for at, (code, value, label, when) in enumerate(self._code):
            offset = self._labels[label] - at - 1 if label else 0
            packed += struct.pack("<HBBI", code, offset if when else 0, 0 if when else offset, value)
        return bytes(packed)
