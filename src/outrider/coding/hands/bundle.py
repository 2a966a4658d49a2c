"""The bundle: one file with all of our code that hands need, for the Python and the platform where they run.

Everything is Python except msgspec's extension. It is taken from this installation if the other side has the same
Python and platform, else from the wheel that pip finds for it.
"""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

import msgspec
import platformdirs

from outrider.coding.hands import bootstrap, checked_arguments
from outrider.environment import data_folder
from outrider.errors import HandsError
from outrider.filesystem import replace_private
from outrider.processes.starting import python_module, run
from outrider.struct_types import described
from outrider.temporary_folder import TemporaryFolder

LEFT_OUT = (
    *("outrider.acp", "outrider.batches", "outrider.evals", "outrider.log", "outrider.mcp", "outrider.sync"),
    *("outrider.providers.adapters", "outrider.providers.streams"),
    *("outrider.providers.resolution", "outrider.providers.transport", "outrider.runtime", "outrider.telemetry"),
    *("outrider.testing", "outrider.web"),
)
"""Rooms that a function of the toolbox may import, but none that hands call."""
DOWNLOAD_SECONDS = 120.0
KEPT = 8
"""Bundles that are kept here, the newest: of this version, for several kinds of machines."""
_SOURCE = Path(bootstrap.__file__).parents[3]
_TARGET = re.compile(r"(?P<python>3\.\d+)-(?P<platform>[a-z0-9_.-]+?)(?:-(?P<libc>musl))?")
# Not with `ast`: Python 3.11 can fail in it when garbage is collected meanwhile.
_IMPORT = re.compile(r"^([ ]*)(?:from|import) (outrider[\w.]*)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)
_FOR_TYPES = re.compile(r"\nif TYPE_CHECKING:\n(?:    .*\n|\n)+")
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Target(msgspec.Struct, frozen=True):
    """The Python and the platform that a bundle is for.

    >>> str(Target.parse("3.12-linux-x86_64-musl"))
    '3.12-linux-x86_64-musl'
    """

    python: str
    platform: str
    """As `sysconfig.get_platform` says it, such as `linux-x86_64`."""
    libc: str = ""
    """`glibc` or `musl` on Linux."""

    @staticmethod
    def here() -> Target:
        """Return that of this process."""
        return msgspec.convert(bootstrap.target(), described(Target))

    @staticmethod
    def parse(text: str) -> Target:
        """Return the target of a text. Raises HandsError."""
        if not (found := _TARGET.fullmatch(text)):
            raise HandsError(f"{text!r} is not a Python and a platform; write it as in {Target.here()}")
        libc = (found["libc"] or "glibc") if found["platform"].startswith("linux-") else ""
        return Target(found["python"], found["platform"], libc)

    def __str__(self) -> str:
        """Return the text that `parse` takes."""
        return f"{self.python}-{self.platform}{'-musl' if self.libc == 'musl' else ''}"

    @property
    def wheel_platforms(self) -> list[str]:
        """The tags of wheels that run there, for pip."""
        system, _, machine = self.platform.partition("-")
        if system != "linux":
            return [re.sub(r"[-.]", "_", self.platform)]
        if self.libc == "musl":
            return [f"musllinux_1_{minor}_{machine}" for minor in (2, 1)]
        return [f"manylinux_2_{minor}_{machine}" for minor in (17, 28)] + [f"manylinux2014_{machine}"]


def find_bundle(target: Target) -> bytes:
    """Return the bundle for a target: the one that was made before, or a new one. Raises HandsError."""
    folder = data_folder() / "hands"
    path = folder / f"{target}-{_state()}.pyz"
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        content = make_bundle(target)
        replace_private(path, content)
        for old in sorted(folder.glob("*.pyz"), key=lambda each: each.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    return content


def make_bundle(target: Target) -> bytes:
    """Return a new bundle. Raises HandsError if msgspec's extension for the target cannot be had."""
    renamed = {"__main__.py": bootstrap.__file__, "jsonschema_rs.py": checked_arguments.__file__}
    files = {name: Path(file).read_bytes() for name, file in renamed.items()} | _extension(target) | _modules()
    if target.python == Target.here().python:
        sources = {name: data for name, data in files.items() if name.endswith(".py")}
        files |= {cache_from_source(name, optimization=""): _compiled(name, data) for name, data in sources.items()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in sorted(files):
            bundle.writestr(zipfile.ZipInfo(name, _EPOCH), files[name], zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


def _state() -> str:
    """Return what changes with our code and with msgspec: the names, sizes and times of the files."""
    digest = sha256(f"{msgspec.__version__} {sys.implementation.cache_tag}".encode())
    for parent, folders, names in os.walk(_SOURCE / "outrider"):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        for name in sorted(names):
            found = os.stat(os.path.join(parent, name))
            digest.update(f"{parent}/{name} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


# Our own code


def _modules() -> dict[str, bytes]:
    """Return the modules that the first one imports, and theirs, with the texts beside them."""
    found = {f"platformdirs/{each.name}": each.read_bytes() for each in Path(platformdirs.__file__).parent.glob("*.py")}
    waiting = [bootstrap.FIRST]
    while waiting:
        module = waiting.pop()
        path = _file(_SOURCE.joinpath(*module.split(".")))
        if not path or (name := path.relative_to(_SOURCE).as_posix()) in found:
            continue
        found[name] = path.read_bytes()
        texts = [each for each in path.parent.iterdir() if each.suffix in (".md", ".json")]
        found |= {each.relative_to(_SOURCE).as_posix(): each.read_bytes() for each in texts}
        waiting += (module.rpartition(".")[0], *_imports(found[name].decode()))
    return found


def _file(path: Path) -> Path | None:
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


def _imports(source: str) -> Iterator[str]:
    """Yield what a module imports. What only functions import may be left out."""
    for indent, module, names in _IMPORT.findall(_FOR_TYPES.sub("\n", source)):
        each = [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
        yield from (name for name in each if not (indent and name.startswith(LEFT_OUT)))


def _compiled(name: str, source: bytes) -> bytes:
    """Return the bytecode of a module: importing it takes a third of the time. The whole bundle is checked by hash."""
    import marshal

    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(source) + marshal.dumps(code)


# msgspec's extension


def _extension(target: Target) -> dict[str, bytes]:
    here = Path(msgspec.__file__).parent
    if target == Target.here():
        return {f"msgspec/{each.name}": each.read_bytes() for each in here.iterdir() if each.suffix in (".py", ".so")}
    with zipfile.ZipFile(io.BytesIO(_wheel(target))) as wheel:
        names = [name for name in wheel.namelist() if re.fullmatch(r"msgspec/[\w.-]+\.(py|so)", name)]
        return {name: wheel.read(name) for name in names}


def _wheel(target: Target) -> bytes:
    """Return msgspec's wheel for a target, which pip downloads from where the user has configured it."""
    folder = TemporaryFolder()
    wanted = ("--only-binary=:all:", "--no-deps", "--implementation=cp", f"--python-version={target.python}")
    platforms = [f"--platform={each}" for each in target.wheel_platforms]
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder.path))
    try:
        ended = run(
            python_module("pip", "download", *options, *wanted, *platforms, f"msgspec=={msgspec.__version__}"),
            environment=os.environ,
            seconds=DOWNLOAD_SECONDS,
        )
        if found := next(folder.path.glob("*.whl"), None):
            return found.read_bytes()
        lines = ended.errors.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else "pip said nothing"
    except OSError as error:
        reason = str(error)
    finally:
        folder.remove()
    raise HandsError(
        f"msgspec for Python {target} cannot be downloaded ({reason}). Install Outrider there, for a command that ends "
        f"with `outrider hands`; or make the bundle where there is a network (`outrider hands --bundle hands.pyz --for "
        f"{target}`), copy it there, and use a command that ends with `python3 hands.pyz`"
    )
