"""The seccomp filter as the kernel would run it, for both machines. `test_escapes.py` loads the one of this machine."""

from __future__ import annotations

import struct

import pytest

from outrider.coding.sandbox.seccomp import ARCHITECTURES, seccomp_filter

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
CALLS = {  # numbers on x86_64 and aarch64, from the headers of the kernel
    "read": (0, 63),
    "openat": (257, 56),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "bpf": (321, 280),
    "mount": (165, 40),
    "unshare": (272, 97),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "fchmodat": (268, 53),
}


def verdict(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run the filter."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    at, value = 0, 0
    while True:
        operation, when, unless, operand = struct.unpack_from("<HBBI", code, at * 8)
        at += 1
        match operation:
            case 0x20:
                value = struct.unpack_from("<I", data, operand)[0]
            case 0x54:
                value &= operand
            case 0x06:
                return int(operand)
            case 0x15 | 0x35 | 0x45:
                truth = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[operation]
                at += when if truth else unless
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


@pytest.fixture(params=sorted(ARCHITECTURES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(machine: str, name: str, *arguments: int, **options: bool) -> int:
    code = seccomp_filter(machine, **options)
    assert code is not None
    assert len(code) % 8 == 0
    return verdict(code, ARCHITECTURES[machine], CALLS[name][machine == "aarch64"], *arguments)


@pytest.mark.parametrize("name", ["read", "openat", "connect", "fchmodat"])
def test_ordinary_calls_pass(machine: str, name: str) -> None:
    assert asked(machine, name) == ALLOW


@pytest.mark.parametrize(
    "name",
    ["keyctl", "ptrace", "bpf", "mount", "unshare", "io_uring_setup", "perf_event_open", "userfaultfd", "kexec_load"],
)
def test_doors_are_refused(machine: str, name: str) -> None:
    assert asked(machine, name) == EPERM


def test_only_internet_and_route_sockets_are_made(machine: str) -> None:
    families = {family: asked(machine, "socket", family, 1, 0) for family in range(50)}
    assert [family for family, said in families.items() if said == ALLOW] == [2, 10, 16]
    assert set(families.values()) == {ALLOW, EPERM}
    assert asked(machine, "socket", 16, 3, 4) == EPERM  # NETLINK_SOCK_DIAG
    assert asked(machine, "socket", 1 << 32 | 1, 1, 0) == EPERM  # the kernel reads 32 bits
    assert asked(machine, "socket", 2, 1, 0, internet=False) == EPERM
    assert asked(machine, "socket", 10, 2, 0, internet=False) == EPERM


def test_pairs_of_sockets_are_made_unless_they_can_be_sent_elsewhere(machine: str) -> None:
    stream, datagram, packets, close_on_exec = 1, 2, 5, 0o2000000
    assert asked(machine, "socketpair", 1, stream) == ALLOW
    assert asked(machine, "socketpair", 1, stream | close_on_exec) == ALLOW
    assert asked(machine, "socketpair", 1, packets) == ALLOW
    assert asked(machine, "socketpair", 1, datagram | close_on_exec) == EPERM


def test_processes_and_threads_start_but_no_namespaces(machine: str) -> None:
    assert asked(machine, "clone", 0x003D0F00) == ALLOW  # a thread
    assert asked(machine, "clone", 17) == ALLOW  # a process
    for bit in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert asked(machine, "clone", bit | 17) == EPERM
    assert asked(machine, "clone3") == ENOSYS


def test_the_terminal_is_not_typed_into(machine: str) -> None:
    assert asked(machine, "ioctl", 0, 0x5401) == ALLOW
    assert asked(machine, "ioctl", 0, 0x5412) == EPERM
    assert asked(machine, "ioctl", 0, 0x541C) == EPERM


def test_modes_of_files_can_be_kept(machine: str) -> None:
    assert asked(machine, "fchmodat", metadata=False) == EPERM


def test_other_architectures_are_killed(machine: str) -> None:
    code = seccomp_filter(machine)
    assert code is not None
    assert verdict(code, 0x40000003, 0) == KILL  # i386
    assert verdict(code, 0x40000028, 0) == KILL  # 32-bit ARM
    if machine == "x86_64":
        assert verdict(code, ARCHITECTURES[machine], 0x40000000 | 41, 1, 1, 0) == KILL  # x32


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp_filter("riscv64") is None
