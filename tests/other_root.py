"""Another root of the file system, in which there is this Python, its libraries, a shell, and nothing else of ours.

It is made with `unshare`, `mount` and `chroot` of util-linux and coreutils, without rights of root.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path


@cache
def trouble() -> str:
    """Return why there can be no other root here, or an empty text."""
    try:
        tried = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return tried.stderr.decode().strip() if tried.returncode else ""


class OtherRoot:
    """A root in a folder."""

    def __init__(self, folder: Path, *, python: bool = True, programs: bool = False) -> None:
        """With `programs`, it has those of this machine, too."""
        self.folder = folder
        self._shared = [sys.base_prefix] if python else []
        self._shared += ["/usr/bin", "/bin"] if programs else []
        self._shared += [each for each in ("/usr/lib", "/lib", "/lib64", "/proc", "/dev") if Path(each).is_dir()]
        self.mounts: list[str] = []
        """More lines of shell that mount something, in the folder."""
        for each in (*self._shared, "/bin", "/tmp", "/home/ann"):
            (folder / each.lstrip("/")).mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        """The home folder, seen from outside."""
        return self.folder / "home" / "ann"

    def argv(self, *command: str, home: str = "/home/ann", cwd: str = "/home/ann") -> list[str]:
        """Return the arguments that run a command there."""
        lines = ["set -e", f"cd {shlex.quote(str(self.folder))}"]
        lines += [f"mount --rbind {each} .{each}" for each in self._shared]
        if "/bin" not in self._shared:
            lines += ["touch bin/sh", 'mount --bind "$(readlink -f "$(command -v sh)")" bin/sh']
        path = f"{sys.base_prefix}/bin:/bin"
        inside = f'cd {shlex.quote(cwd)} && exec "$@"'
        variables = f"-i PATH={path} {f'HOME={home}' if home else ''}"
        lines += [
            *self.mounts,
            f'exec env {variables} "$(command -v chroot)" . /bin/sh -c {shlex.quote(inside)} sh "$@"',
        ]
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "\n".join(lines), "sh", *command]

    def prefix(self, **options: str) -> str:
        """Return the command line for `--in`."""
        return shlex.join(self.argv(**options)).replace("\n", "; ")
