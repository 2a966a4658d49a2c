"""Detect network file systems. SQLite's WAL mode needs shared memory, which works on one machine only."""

from __future__ import annotations

import re
import sys
from pathlib import Path

NETWORK = (
    r"9p|afs|afpfs|beegfs|ceph|cifs|coda|davfs|drvfs|glusterfs|gpfs|lustre|ncpfs|nfs[34]?|orangefs|prl_fs|smb[23]|smbfs|"
    r"vboxsf|virtiofs|webdav|fuse\.(sshfs|rclone|s3fs|gcsfuse|glusterfs|ceph|davfs2?|goofys|smbnetfs)"
)
"""File systems served by another machine, or by the host of a virtual machine."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


def network_file_system(folder: Path) -> str:
    """Return the type of the network file system that holds the folder; empty if it is local or unknown."""
    try:
        folder = folder.resolve()
        kind = _kind_on_linux(folder) if sys.platform == "linux" else _kind_by_mount(folder)
    except (OSError, ValueError):
        return ""
    return kind if re.fullmatch(NETWORK, kind) else ""


def _kind_on_linux(folder: Path) -> str:
    return kind_in_mountinfo(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"), folder)


def kind_in_mountinfo(mounts: str, folder: Path) -> str:
    """Return the folder's file system type, given Linux's list of mounts. A later mount covers an earlier one."""
    around = {str(each): depth for depth, each in enumerate([*reversed(folder.parents), folder])}
    found, deepest = "", -1
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        depth = around.get(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]), -1)
        if depth >= max(deepest, 0):
            found, deepest = after.split(" ")[0], depth
    return found


def _kind_by_mount(folder: Path) -> str:
    """Read the type from the output of `mount`, as on macOS: `//server/share on /Volumes/share (smbfs, nodev)`."""
    if sys.platform == "win32":
        return "smb2" if str(folder).startswith("\\\\") else ""
    from outrider.processes.starting import run

    output = run(["/sbin/mount"], environment={}, seconds=5).output.decode(errors="surrogateescape")
    found, depth = "", -1
    for match in re.finditer(r"^.* on (.+) \((\w+)[,)]", output, re.MULTILINE):
        point = Path(match[1])
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = match[2], len(point.parts)
    return found
