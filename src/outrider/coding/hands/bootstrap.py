"""The program that is sent first, and that a bundle runs: it installs the bundle and starts the hands.

It runs where the hands will be, with that Python and its standard library alone, so it imports nothing of ours until
the bundle is unpacked. Each thing that it says is one line of JSON after a word that only the brain and this process
know: login scripts may print anything before.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import pathlib
import shutil
import stat
import sys
import sysconfig
import tempfile
import time
import zipfile
from typing import Any

FIRST = "outrider.coding.hands.serving"
"""The module that serves."""
KEPT_SECONDS = 30 * 86_400.0
"""How long a bundle is kept that is not used."""
MOST_NAMED = 50
"""Bundles that are named to the brain, the newest first."""


class InstallError(Exception):
    """The bundle cannot be used here; the message says why."""


# Folders for bundles


def cache_folders() -> list[str]:
    """Return where bundles may be kept: in the user's cache folder, or else in one of the temporary folders."""
    named, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    own = os.path.join(named if os.path.isabs(named) else os.path.join(home, ".cache"), "outrider", "hands")
    temporary = dict.fromkeys(filter(None, (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm")))
    found = [own] if os.path.isabs(own) and os.path.isdir(home) else []
    return found + [os.path.join(each, f"outrider-hands-{os.getuid()}") for each in temporary if os.path.isdir(each)]


def is_private(folder: str) -> bool:
    """Return whether a folder is ours alone, and no link: others may write in temporary folders."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def bundles() -> list[str]:
    """Return the digests of the bundles that are kept here."""
    found = [
        (entry.stat(follow_symlinks=False).st_mtime, entry.name.removesuffix(".pyz"))
        for folder in cache_folders()
        if is_private(folder)
        for entry in os.scandir(folder)
        if entry.name.endswith(".pyz")
    ]
    return list(dict.fromkeys(digest for _, digest in sorted(found, reverse=True)))[:MOST_NAMED]


# Installing


def kept(digest: str) -> tuple[str, bytes] | None:
    """Return the folder and the bytes of a bundle that is kept here and undamaged."""
    for folder in filter(is_private, cache_folders()):
        try:
            with open(os.path.join(folder, f"{digest}.pyz"), "rb") as file:
                content = file.read()
        except OSError:
            continue
        if hashlib.sha256(content).hexdigest() == digest:
            os.utime(os.path.join(folder, f"{digest}.pyz"))
            return folder, content
    return None


def install(content: bytes) -> str:
    """Keep a bundle in the first folder that takes it, unpack it, and return the path of its modules."""
    reasons = []
    for folder in cache_folders():
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if not is_private(folder):
                raise PermissionError(0, "it belongs to another user, or others may write to it")
            digest = hashlib.sha256(content).hexdigest()
            _write(os.path.join(folder, f"{digest}.pyz"), content)
            _write(os.path.join(folder, ".ignore"), b"*\n")  # searches in the home folder do not find us
            _remove_old(folder)
            return unpack(folder, digest, content)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
    raise InstallError(f"there is no folder to keep Outrider's hands in ({'; '.join(reasons)}): set XDG_CACHE_HOME")


def unpack(folder: str, digest: str, content: bytes) -> str:
    """Return the path of a bundle's modules, unpacked now unless they are there and hold what the bundle holds."""
    target = os.path.join(folder, digest)
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        files = {name: bundle.read(name) for name in bundle.namelist()}
    if _holds(target, files):
        return target
    fresh = tempfile.mkdtemp(prefix="new-", dir=folder)
    try:
        for name, data in files.items():
            path = os.path.join(fresh, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _create(path, data)
        if os.path.lexists(target):
            os.rename(target, os.path.join(tempfile.mkdtemp(prefix="old-", dir=folder), digest))
        os.rename(fresh, target)
    except OSError:
        if not _holds(target, files):  # another process was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _holds(folder: str, files: dict[str, bytes]) -> bool:
    """Return whether a folder has exactly these files. One that is not from the bundle could be imported, too."""
    found = {
        os.path.relpath(os.path.join(parent, name), folder): os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
    }
    if found.keys() != files.keys():
        return False
    for name, path in found.items():
        with open(path, "rb") as file:
            if file.read() != files[name]:
                return False
    return True


def _write(path: str, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix="new-", dir=os.path.dirname(path))
    os.close(handle)
    try:
        os.unlink(temporary)
        _create(temporary, content)
        os.replace(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def _create(path: str, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _remove_old(folder: str) -> None:
    """Remove bundles that were not used for long, and what killed processes have left."""
    for entry in os.scandir(folder):
        digest = entry.name.removesuffix(".pyz")
        try:
            used = os.lstat(os.path.join(folder, f"{digest}.pyz" if len(digest) == 64 else entry.name)).st_mtime
        except OSError:  # modules whose bundle is gone
            used = 0.0
        if time.time() - used > KEPT_SECONDS:
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


# Starting


def target() -> dict[str, str]:
    """Return what decides which bundle this Python can use."""
    config = str(sysconfig.get_config_var("SOABI") or "") + str(sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    return {
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "platform": sysconfig.get_platform(),
        "libc": ("musl" if "musl" in config else "glibc") if sys.platform == "linux" else "",
    }


def load(path: str) -> Any:
    """Return the function that serves, with all that it needs imported."""
    sys.path.insert(0, path)
    sys.dont_write_bytecode = True
    for name in [name for name in os.environ if name.startswith("OUTRIDER_")]:
        del os.environ[name]
    try:
        return importlib.import_module(FIRST).serve_streams
    except ImportError as error:
        raise InstallError(f"{error}; if {path} is on a file system without programs, set XDG_CACHE_HOME") from None


def check_folder(folder: str) -> str:
    """Return the absolute path of the working folder. Raises InstallError."""
    path = os.path.abspath(os.path.expanduser(folder or os.curdir))
    if not os.path.isdir(path):
        raise InstallError(f"there is no folder {path}")
    return path


def serve_streams(word: str) -> int:
    """Tell the brain what this is, take the bundle if it is not here, and serve."""

    def say(**what: Any) -> None:
        sys.stdout.buffer.write(f"\n{word} {json.dumps(what)}\n".encode())
        sys.stdout.buffer.flush()

    try:
        say(target=target(), has=bundles())
        asked = json.loads(sys.stdin.buffer.readline() or "null")
        if asked is None:
            return 1
        found = None if asked["size"] else kept(asked["bundle"])
        if not found and not asked["size"]:
            say(need=True)
            asked = json.loads(sys.stdin.buffer.readline() or "null")
            if asked is None:
                return 1
        if found:
            path = unpack(found[0], asked["bundle"], found[1])
        else:
            content = sys.stdin.buffer.read(asked["size"])
            if hashlib.sha256(content).hexdigest() != asked["bundle"]:
                raise InstallError("what arrived is not what was sent")
            path = install(content)
        folder = check_folder(asked["folder"])
        hands = load(path)
    except (InstallError, OSError, zipfile.BadZipFile) as error:
        say(error=str(error))
        return 1
    say(ready=True)
    return int(hands(pathlib.Path(folder)))


def serve_file(file: str, arguments: list[str]) -> int:
    """Serve from a bundle that was copied here: `python3 hands.pyz --folder PATH`."""
    with open(file, "rb") as opened:
        content = opened.read()
    try:
        if arguments and (len(arguments) != 2 or arguments[0] != "--folder"):
            raise InstallError(f"write python3 {file} --folder PATH")
        return int(load(install(content))(pathlib.Path(check_folder(arguments[1] if arguments else ""))))
    except InstallError as error:
        print(f"outrider hands: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - a bundle is started with whatever Python is there
        sys.exit("outrider hands: Python 3.11 or newer is needed")
    archive = getattr(globals().get("__loader__"), "archive", "")
    sys.exit(serve_file(archive, sys.argv[1:]) if archive else serve_streams(sys.argv[1]))
