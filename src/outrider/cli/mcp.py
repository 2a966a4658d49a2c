"""`outrider mcp`: add, list, remove and test MCP servers, log in to them; and be one."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from outrider.cli.command_parser import JSON_HELP, command_parser, reported
from outrider.cli.mcp_report import ServerReport, report_lines, report_on
from outrider.cli.user_programs import open_page
from outrider.coding.config.loading import label_of
from outrider.coding.consent.item import Consents
from outrider.coding.masking import mask_tokens
from outrider.coding.mcp.server_files import (
    FoundServers,
    ServerEntry,
    ServersFile,
    find_project_servers,
    find_servers,
    server_item,
    user_file,
)
from outrider.coding.mcp.shared_servers import authorize, token_store
from outrider.coding.permissions.question import MODES
from outrider.environment import LOG_HELP, data_folder
from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, McpServer, StdioServer, tool_prefix
from outrider.mcp.stdio import program_of
from outrider.processes.programs import ProgramNotFoundError
from outrider.text.visible import safe_line

DESCRIPTION = """\
MCP servers give the agent more tools, files and prompts. Your own are in mcp.json beside your settings; a project's are
in its .mcp.json, and are used only after `outrider trust`, because they start programs.
"""
EPILOG = """\
examples:
  outrider mcp add time -- uvx mcp-server-time
  outrider mcp add docs https://example.org/mcp --header "X-Team=blue"
  outrider mcp add github https://example.org/mcp --header "Authorization=Bearer ${GITHUB_TOKEN}"
  outrider mcp test time
  outrider mcp login docs
  outrider mcp serve --folder ~/code --permissions edits

In both files, ${VAR} and ${VAR:-default} are replaced by variables of the environment.

exit codes: 0 done, 1 a server failed, 2 wrong usage or an invalid file
"""
TRY_SECONDS = 20
_KEPT = "It stays in the file. To try it again: outrider mcp test {name}; to remove it: outrider mcp remove {name}"


def mcp(arguments: list[str]) -> int:
    before, command = _split_command(arguments)
    parser = make_parser()
    options, rest = parser.parse_known_args(before)
    if rest and options.action is _add and not command and not any(each.startswith("-") for each in rest):
        program = shlex.join([options.url or "", *rest])
        parser.error(f"a program follows --, as in: outrider mcp add {options.name} -- {program}")
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.command = command
    action: Callable[[argparse.Namespace], int] = options.action
    return reported("mcp", lambda: action(options))


def _split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split off the command of a server, which follows `--` and may have any options of its own."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("mcp", DESCRIPTION, EPILOG)
    parser.set_defaults(action=_list, json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    usage = "%(prog)s [options] NAME URL\n       %(prog)s [options] NAME -- COMMAND [ARGUMENT ...]"
    add = commands.add_parser("add", help="add a server: a program after --, or an address", usage=usage)
    add.add_argument("name", metavar="NAME", help="the name; its tools are mcp__NAME__TOOL")
    add.add_argument("url", metavar="URL", nargs="?", help="the address of the server, if it is not a program")
    add.add_argument("--header", action="append", default=[], metavar="K=V", help="a header of every request")
    add.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for the program")
    add.add_argument("--trusted", action="store_true", help="believe the server which of its tools only read")
    add.add_argument("--project", action="store_true", help="add it to the project's .mcp.json, and approve that")
    add.add_argument("--unchecked", action="store_true", help="do not look for its program, and do not try the server")
    add.set_defaults(action=_add)

    listed = commands.add_parser("list", help="list the servers and where they come from")
    listed.add_argument("--json", action="store_true", help=JSON_HELP)
    listed.set_defaults(action=_list)

    remove = commands.add_parser("remove", help="remove a server, and the login to it")
    remove.add_argument("name", metavar="SERVER")
    remove.add_argument("--project", action="store_true", help="remove it from the project's .mcp.json")
    remove.set_defaults(action=_remove)

    test = commands.add_parser("test", help="connect to servers and list what they have, with times")
    test.add_argument("name", metavar="SERVER", nargs="?", help="the server; without a name, all")
    test.add_argument("--json", action="store_true", help=JSON_HELP)
    test.set_defaults(action=_test)

    _add_serve(commands)
    login = commands.add_parser("login", help="log in to a server with a browser (OAuth)")
    login.add_argument("name", metavar="SERVER")
    login.add_argument("--no-browser", action="store_true", help="print the address, and do not open it")
    login.set_defaults(action=_login)
    return parser


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        *("serve",),
        help="be an MCP server: other programs give tasks to this agent",
        description="Serve one tool over MCP, run_task: it runs a task in a durable session with your settings. Calls "
        "that need approval are asked by elicitation, or denied where the client has none.",
    )
    serve.add_argument(
        *("--folder",), action="append", metavar="DIR", help="a folder that tasks may work in (default: this one)"
    )
    serve.add_argument(
        *("--http",),
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="serve HTTP on 127.0.0.1 instead of standard input and output; prints the address and a token",
    )
    serve.add_argument("-m", "--model", metavar="MODEL", help="the model to use")
    serve.add_argument("--permissions", metavar="MODE", choices=MODES, help="which calls run without asking")
    serve.add_argument("--max-turns", type=int, metavar="N", help="replies of the model in one task")
    serve.add_argument("--max-cost", type=float, metavar="USD", help="US dollars for one task")
    serve.add_argument("--no-questions", action="store_true", help="deny what needs approval, and ask nobody")
    serve.add_argument("--log", metavar="PLACE", help=LOG_HELP)
    serve.set_defaults(action=_serve)


def _serve(options: argparse.Namespace) -> int:
    serving = import_module("outrider.mcp_server.serving")  # a front end of its own, above the commands
    code: int = serving.run(options)
    return code


# Files


def _file(*, project: bool) -> ServersFile:
    path = find_project_servers(Path.cwd()) if project else user_file()
    return ServersFile(path, os.path.relpath(path) if project else label_of(path))


def _add(options: argparse.Namespace) -> int:
    fields = _fields(options)
    file = _file(project=options.project)
    if file.entry(options.name):
        raise ConfigError(f"{file.label} has a server {options.name} already; remove it first")
    entry = ServerEntry(options.name, fields, f"the server {options.name}")
    server = None
    try:
        start = None if options.project else file.path.parent  # where it will start
        server = entry.server(os.environ, Path.cwd(), start, may_be_trusted=True)
    except ConfigError as error:
        if "which is not set" not in str(error):
            raise
        print(safe_line(f"Note: {error}"), file=sys.stderr)
    if isinstance(server, StdioServer) and not options.unchecked:
        _check_program(server)
    file.put(options.name, fields)
    if options.project:  # the user wrote it just now, with the names of its variables
        item = server_item(entry, file.path, os.environ)
        Consents(data_folder()).give([item], item.secrets)
    can_try = server is not None and not options.unchecked
    how = "" if can_try else f" To try it: outrider mcp test {options.name}"
    print(f"Added {options.name} to {file.label}.{how}", flush=True)
    return _try(server) if server and can_try else 0


def _check_program(server: StdioServer) -> None:
    """Raise ConfigError if the program of a server is missing."""
    try:
        if os.access(program_of(server, os.environ), os.X_OK):
            return
        problem = f"there is no program {server.command}"
        if "/" in server.command and not os.path.isabs(server.command):
            problem += f" in {server.cwd}, where it would start: give its whole path"
    except ProgramNotFoundError as error:
        problem = str(error)
    raise ConfigError(f"{problem}; the server was not added (--unchecked adds it anyway)")


def _try(server: McpServer) -> int:
    """Connect to a new server once, and show what it has. It stays, whatever comes of it."""

    async def report_in_time() -> ServerReport:
        async with asyncio.timeout(TRY_SECONDS):
            return await report_on(server)

    try:
        report = asyncio.run(report_in_time())
    except TimeoutError:
        print(f"It has not answered within {TRY_SECONDS} s. {_KEPT.format(name=server.name)}")
        return 1
    if report.needs_login:
        print(safe_line(f"It needs a login: outrider mcp login {server.name}"))
        return 0
    for line in report_lines(report):
        print(safe_line(line))
    if report.error:
        print(_KEPT.format(name=server.name))
    return 1 if report.error else 0


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    trusted = {"trusted": True} if options.trusted else {}
    if options.trusted and options.project:
        raise ConfigError("--trusted is for your own servers; allow tools of a project's server with a rule")
    if options.command and not options.url:
        if options.header:
            raise ConfigError("--header is for an address; a program takes --env K=V")
        env = {"env": _pairs(options.env, "--env")} if options.env else {}
        program, *rest = options.command if options.project else map(_anywhere, options.command)
        return {"command": program, "args": rest, **env, **trusted}
    if options.url and not options.command:
        if options.env:
            raise ConfigError("--env is for a program; an address takes --header K=V")
        headers = {"headers": _pairs(options.header, "--header")} if options.header else {}
        return {"type": "http", "url": options.url, **headers, **trusted}
    raise ConfigError("give either an address, or a program after --: outrider mcp add NAME -- COMMAND ARGS…")


def _anywhere(word: str) -> str:
    """Return a word of a command so that it names the same file in every folder: a user's server starts in any."""
    is_file = not os.path.isabs(word) and ("/" in word or "." in word) and os.path.isfile(word)
    return os.path.abspath(word) if is_file else word


def _pairs(given: list[str], flag: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, equals, _ in pairs:
        if not equals or not name.strip():
            raise ConfigError(f"{flag} takes a name and a value, as in NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def _remove(options: argparse.Namespace) -> int:
    file = _file(project=options.project)
    entry = file.entry(options.name)
    if entry is None:
        other = "" if options.project else "; for one of the project, add --project"
        raise ConfigError(f"{file.label} has no server {options.name}{other}")
    file.remove(entry.name)
    url = entry.fields.get("url")
    forgotten = isinstance(url, str) and token_store().remove(url)
    print(f"Removed {entry.name} from {file.label}{', and the login to it' if forgotten else ''}.")
    return 0


# Servers


def _list(options: argparse.Namespace) -> int:
    found = find_servers(Path.cwd())
    waiting = found.waiting
    if options.json:
        rows = [
            {"name": each.name, "origin": found.origins[each.name], **_described(each), "trusted": each.trusted}
            for each in found.servers
        ]
        data = {"servers": rows, "waiting": [each.name for each in waiting], "notes": list(found.notes)}
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return 2 if found.notes else 0
    width = max((len(each.name) for each in (*found.servers, *waiting)), default=0)
    for each in found.servers:
        what = " ".join(map(str, _described(each).values()))
        trusted = ", trusted" if each.trusted else ""
        print(safe_line(f"{each.name:{width}}  {what}  ({found.origins[each.name]}{trusted})"))
    for item in waiting:
        print(safe_line(f"{item.name:{width}}  not used until you agree: outrider trust"))
    if not found.servers and not waiting:
        print("No MCP servers. To add one: outrider mcp add NAME -- COMMAND ARGS…")
    _print_notes(found)
    return 2 if found.notes else 0


def _described(server: McpServer) -> dict[str, str]:
    """Return what a server is, without secrets."""
    if isinstance(server, HttpServer):
        return {"url": mask_tokens(server.url)}
    return {"command": mask_tokens(" ".join((server.command, *server.args)))}


def _print_notes(found: FoundServers) -> None:
    for note in found.notes:
        print(safe_line(f"outrider mcp: {note}"), file=sys.stderr)


def _named(name: str) -> McpServer:
    found = find_servers(Path.cwd())
    _print_notes(found)
    for server in found.servers:
        if tool_prefix(server.name) == tool_prefix(name):
            return server
    if any(item.name == name for item in found.waiting):
        raise ConfigError(f"the server {name} is the project's; agree to it first: outrider trust")
    known = ", ".join(server.name for server in found.servers) or "none"
    raise ConfigError(f"there is no server {name}; the servers are: {known}")


def _test(options: argparse.Namespace) -> int:
    if options.name:
        servers: tuple[McpServer, ...] = (_named(options.name),)
    else:
        found = find_servers(Path.cwd())
        _print_notes(found)
        servers = tuple(found.servers)
        if not servers and not options.json:
            print("No MCP servers. To add one: outrider mcp add NAME -- COMMAND ARGS…")

    async def test_all() -> list[ServerReport]:
        return list(await asyncio.gather(*map(report_on, servers)))

    reports = asyncio.run(test_all())
    if options.json:
        print(json.dumps({report.name: report.as_dict() for report in reports}, indent=2, ensure_ascii=False))
    else:
        for line in (line for report in reports for line in report_lines(report)):
            print(safe_line(line))
    return 1 if any(report.error for report in reports) else 0


def _login(options: argparse.Namespace) -> int:
    server = _named(options.name)
    if isinstance(server, StdioServer):
        raise ConfigError(f"the server {server.name} is a program: there is nothing to log in to")

    async def open_url(url: str) -> None:
        print(f"Log in here: {safe_line(url)}", flush=True)
        if not options.no_browser:
            await open_page(url)

    authorization = authorize(server, open_url)
    if authorization is None:
        raise ConfigError(f"the server {server.name} has its own Authorization header: remove it to log in")
    report = asyncio.run(report_on(server, authorization))
    if report.error:
        print(safe_line(f"outrider mcp: {report.error}"), file=sys.stderr)
        return 1
    is_stored = token_store().read(server.url) is not None
    print(f"Logged in to {server.name}." if is_stored else f"{server.name} needs no login.")
    return 0
