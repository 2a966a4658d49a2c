"""Restrict this process with Landlock and a seccomp filter, then become the command. Run alone: `python -I -S`.

Arguments: a number, that many parts of the rules as JSON (see `landlock.Rules`), the working directory, the command. It
imports nothing of the package, because it starts before each command and must be quick.
"""

import ctypes
import json
import os
import sys

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
DEVICE_NODES = 1 << 6 | 1 << 11
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP, SCOPES = 0b11, 0b11
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, PATH_BENEATH, VERSION = 444, 445, 446, 1, 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_CAPBSET_DROP = 38, 22, 2, 24
CAPABILITIES = 64
libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`."""

    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class PathBeneath(ctypes.Structure):
    """`struct landlock_path_beneath_attr`."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def check(result: int, what: str) -> int:
    """Return a result that is no error. Exits otherwise: the command must not run unconfined."""
    if result < 0:
        sys.exit(f"outrider: {what}: {os.strerror(ctypes.get_errno())}")
    return result


def call(number: int, *arguments: object) -> int:
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def restrict_files(rules: "dict[str, object]") -> None:
    """Apply the Landlock rules to this process."""
    size = ctypes.c_size_t
    version = check(call(CREATE_RULESET, None, size(0), ctypes.c_uint32(VERSION)), "Landlock is not available")
    handled = next(rights for since, rights in sorted(FILES_BY_VERSION.items(), reverse=True) if version >= since)
    attributes = Ruleset(handled, TCP if version >= 4 and not rules["internet"] else 0, SCOPES if version >= 6 else 0)
    length = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = check(call(CREATE_RULESET, ctypes.byref(attributes), size(length), ctypes.c_uint32(0)), "Landlock rules")
    # Listing folders cannot be left out by name; reading and changing files can.
    allow(ruleset, ["/"], READ_DIR)
    allow(ruleset, rules["readable"], EXECUTE | READ_FILE | READ_DIR)
    allow(ruleset, rules["writable"], handled & ~(IOCTL_DEV | DEVICE_NODES))
    allow(ruleset, rules["devices"], handled & (READ_FILE | WRITE_FILE | IOCTL_DEV))
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    check(call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "Landlock")
    os.close(ruleset)


def allow(ruleset: int, paths: "object", rights: int) -> None:
    """Allow rights on paths and everything below. A path that is gone or has become a link is left out."""
    assert isinstance(paths, list)
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        is_folder = os.stat(f"/proc/self/fd/{handle}").st_mode & 0o170000 == 0o040000
        rule = PathBeneath(rights if is_folder else rights & OF_FILES, handle)
        result = call(
            ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
        check(result, f"Landlock rule for {path}")
        os.close(handle)


def drop_capabilities() -> None:
    """Take from root what makes it more than a user. A program that root starts gets what the bounding set leaves."""
    for number in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for a user, who has none, and for numbers without one


def restrict_calls(code: bytes) -> None:
    """Apply the seccomp filter to this process."""
    program = Program(len(code) // 8, code)
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "the seccomp filter")


def main() -> None:
    first = 2 + int(sys.argv[1])
    rules, folder, argv = json.loads("".join(sys.argv[2:first])), sys.argv[first], sys.argv[first + 1 :]
    os.environ["TMPDIR"] = rules["temporary"]
    with open(rules["filter"], "rb") as file:
        code = file.read()
    os.chdir(folder)
    libc.setsid()  # without a terminal, unless this process leads a session: then its terminal is its own
    drop_capabilities()
    restrict_files(rules)
    restrict_calls(code)
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        error.filename = argv[0]
        raise


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"outrider: {error.strerror} ({error.filename})")
