"""Programs below the temporary folder, which the sandbox hides: those on PATH are shown, and nothing else of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox.available import _bundled
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock
from outrider.coding.sandbox.sandbox import Confinement, Host, Sandbox
from outrider.coding.sandbox.seccomp import seccomp_filter
from outrider.processes.starting import run
from tests.coding.sandbox.world import mechanisms


class Place:
    """A folder below /tmp with a Python environment, a folder of programs, and a working folder with another."""

    def __init__(self, base: Path) -> None:
        self.base, self.work, self.temporary = base, base / "work", base / "own"
        for folder in ("venv/bin", "tools/bin", "open/bin", "work/.venv/bin", "data/bin", "own", "other"):
            (base / folder).mkdir(parents=True)
        for folder in ("venv", "tools", "open", "work/.venv", "data"):
            program = base / folder / "bin" / f"in-{folder.replace('/', '-').replace('.', '')}"
            program.write_text("#!/bin/sh\necho $0 runs\n")
            program.chmod(0o755)
        (base / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (base / "venv" / "library").write_text("imported\n")
        (base / "tools" / "beside").write_text("beside\n")
        (base / "other" / "secret").write_text("secret\n")
        (base / "open").chmod(0o777)
        self.path = os.pathsep.join(f"{base}/{name}/bin" for name in ("venv", "tools", "open", "work/.venv", "data"))

    def run(self, mechanism: str, command: str, access: Access = "read") -> str:
        """The output of a command in the sandbox."""
        path = f"{self.path}:/usr/bin:/bin"
        own = OwnPlaces((str(self.base / "data"),))
        places = Confinement(folder=self.work, cwd=self.work, temporary=self.temporary, own=own)
        sandbox = made(mechanism, path)  # its files go with it
        argv = sandbox.wrap(["/bin/sh", "-c", f"{{ {command}; }} 2>&1"], access, places)
        return run(argv, environment={"PATH": path}, seconds=60, folder="/").output.decode()


def made(mechanism: str, path: str) -> Sandbox:
    host = Host.of({"HOME": "/nowhere", "PATH": path})
    if mechanism == "Landlock":
        return Landlock(host)
    return Bubblewrap(shutil.which("bwrap") or _bundled() or "", host, seccomp_filter(os.uname().machine) or b"")


@pytest.fixture
def place() -> Iterator[Place]:
    with TemporaryDirectory(dir="/tmp") as name:
        yield Place(Path(name))


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("access", ["read", "write"])
def test_programs_on_path_run_and_nothing_else_is_shown(mechanism: str, access: Access, place: Place) -> None:
    runs = place.run(mechanism, "in-venv; in-tools; in-work-venv", access)
    assert runs.count(" runs\n") == 3
    base = place.base
    assert place.run(mechanism, f"cat {base}/venv/library", access) == "imported\n"
    hidden = f"cat {base}/tools/beside {base}/other/secret; in-open; in-data"
    assert not {"beside\n", "secret\n", "runs\n"} & set(place.run(mechanism, hidden, access).splitlines(keepends=True))
    changes = (
        f"for f in {base}/venv/bin/in-venv {base}/venv/new {base}/tools/bin/new; do echo x >> $f && echo changed; done"
    )
    assert "changed" not in place.run(mechanism, changes, access)
    assert (base / "venv/bin/in-venv").read_text().endswith("runs\n")
    if access == "write":  # in the working folder, as everything there
        assert "changed" in place.run(mechanism, "echo x > .venv/bin/new && echo changed", access)


def test_only_what_others_cannot_change_is_shown(place: Place) -> None:
    found = Host.of({"HOME": "/nowhere", "PATH": f"{place.path}:/tmp:relative:{place.base}/missing"}).programs
    base = str(place.base)
    assert [each for each in found if each.startswith(base)] == [
        *(f"{base}/venv", f"{base}/tools/bin", f"{base}/work/.venv/bin", f"{base}/data/bin")
    ]
    assert "/tmp" not in found
