"""`outrider doctor`: what is there, what is missing, and how to set it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from typing import Literal

import msgspec

from outrider.cli.models import HOSTED, api_of
from outrider.config import data_folder, default_model
from outrider.errors import LogError, OutriderError
from outrider.providers import resolve
from outrider.providers.environment import certificate_faults, key_fault, proxies, set_among, without_password
from outrider.scripting import default_log
from outrider.text import counted
from outrider.version import __version__

DESCRIPTION = """\
Say line by line what Outrider finds here: Python, packages, the data folder, the model, keys (never their values),
proxies, certificates, optional extras. Nothing is sent anywhere; outrider models --check asks the providers.
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
    "msgspec": "JSON",
    "pillow": "pictures",
    "platformdirs": "the place of the data folder",
    "pypdf": "text of PDFs",
    "pypdfium2": "pages of PDFs as pictures",
}
"""What is installed with Outrider, and what for."""
_MODULES = {"pillow": "PIL"}


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
    return chain(_python(), _packages(), _data_folder(), _sessions(), _model(), _keys(), _network(), _extras())


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
            import_module(_MODULES.get(name, name.replace("-", "_")))
            yield Finding("fine", f"{name} {version(name)} ({purpose})")
        except PackageNotFoundError:
            yield Finding("fine", f"{name} ({purpose})")
        except Exception as error:  # noqa: BLE001 - a package that is damaged may raise anything
            advice = f"install it again: pip install --force-reinstall {name}"
            yield Finding("broken", f"{name} ({purpose}) cannot be imported: {error}; {advice}")


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


def _model() -> Iterator[Finding]:
    name = default_model()
    try:
        provider = resolve(name)
    except OutriderError as error:
        yield Finding("broken", f"OUTRIDER_MODEL: {error}")
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
