"""All settings. Each annotated field is the only declaration of a setting.

The type, default, environment variable, flag, help text and consent rule of a setting are declared here. Parsing,
validation, `outrider config`, consent and the table in docs/configuration.md are derived from them. After a change, run
`scripts/settings-page`. A new flag also needs an option in the command-line parser.
"""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from outrider.coding.access import Access
from outrider.coding.config.consent_rules import (
    if_adds,
    if_adds_hosts,
    if_adds_tools,
    if_exposes_secrets,
    if_higher,
    if_looser,
    if_more_effort,
    if_off,
    if_on,
    if_other_provider,
    if_set,
)
from outrider.coding.config.declaration import Setting
from outrider.coding.config.value_types import (
    Folders,
    Hosts,
    JsonFiles,
    PathPatterns,
    PythonFiles,
    Rules,
    Seconds,
    Share,
    TextList,
    ToolNames,
)
from outrider.coding.permissions.question import Mode
from outrider.providers.base import Effort
from outrider.runtime.compaction import Compaction
from outrider.runtime.limits import Limits
from outrider.runtime.retry import Retry

WebSearchUse: TypeAlias = Literal["ask", "on", "off"]
Theme: TypeAlias = Literal["auto", "light", "dark"]
Notify: TypeAlias = Literal["bell", "desktop", "off"]
SandboxUse: TypeAlias = Literal["auto", "off", "require"]

_LONGER_RUN = "a run may take longer, or cost more, than you have set"
_LIMITS = Limits()
_RETRY = Retry()
_COMPACTION = Compaction()


class PermissionSettings(msgspec.Struct, frozen=True):
    """Which calls run, need approval, or are denied."""

    mode: Annotated[
        Mode,
        Setting(
            variable="OUTRIDER_PERMISSIONS",
            flag="--permissions",
            help='`"plan"` only reads; `"ask"` asks before it changes something; '
            '`"edits"` may edit files in the folder; `"all"` asks only where a rule says so',
            consent=if_looser("plan", "ask", "edits", "all", why="more is done without asking you"),
        ),
    ] = "ask"
    allow: Annotated[
        Rules,
        Setting(
            flag="--allow",
            help="rules for calls that run without asking, such as `Bash(git status)`",
            consent=if_adds("these calls run without asking you"),
        ),
    ] = ()
    ask: Annotated[
        Rules, Setting(help="rules for calls that need approval even where another rule allows them", consent=None)
    ] = ()
    deny: Annotated[Rules, Setting(help="rules for calls that are denied; they win over all others", consent=None)] = ()
    folders: Annotated[
        Folders,
        Setting(
            help="more folders that count as part of the one you work in",
            consent=if_adds("these folders count as part of the project"),
        ),
    ] = ()
    secrets: Annotated[
        PathPatterns | None,
        Setting(
            help="patterns of files that are hidden from the model, instead of the built-in ones "
            "(`.env`, key files and more)",
            unset="built in",
            consent=if_exposes_secrets("the model may read files that are hidden now"),
        ),
    ] = None


class SandboxSettings(msgspec.Struct, frozen=True):
    """How shell commands are sandboxed."""

    use: Annotated[
        SandboxUse,
        Setting(
            variable="OUTRIDER_SANDBOX",
            help='`"auto"` runs commands in a sandbox where there is one; `"require"` runs none without; `"off"`',
            consent=if_looser("require", "auto", "off", why="commands may run without a sandbox"),
        ),
    ] = "auto"
    pass_env: Annotated[
        tuple[str, ...],
        TextList("names of variables"),
        Setting(
            help="environment variables that commands see although they look like secrets, such as `GITHUB_TOKEN`",
            consent=if_adds("commands see these variables, which may hold keys"),
        ),
    ] = ()
    allow_hosts: Annotated[
        Hosts,
        Setting(
            help="the only hosts that commands with access `network` reach, such as `pypi.org`, `*.github.com` or "
            "`10.0.0.5:8080`; empty for all",
            consent=if_adds_hosts("commands with access `network` reach more hosts"),
        ),
    ] = ()


class WebSettings(msgspec.Struct, frozen=True):
    """What WebFetch may fetch, and whether the model may search."""

    private_addresses: Annotated[
        bool,
        Setting(
            variable="OUTRIDER_PRIVATE_ADDRESSES",
            help="whether WebFetch may reach this machine and the local network",
            consent=if_on("WebFetch may reach this machine and the local network"),
        ),
    ] = False
    search: Annotated[
        WebSearchUse,
        Setting(
            variable="OUTRIDER_WEB_SEARCH",
            help="web search by the model's API, where it has one, at its price: "
            '`"ask"` asks once in a session; `"on"`; `"off"`',
            consent=if_looser("off", "ask", "on", why="the model searches the web without asking you, at a price"),
        ),
    ] = "ask"


class LimitSettings(Limits, frozen=True):
    """The declarations of the settings for `Limits`, which has the defaults. `Settings.limits` itself is a `Limits`."""

    max_turns: Annotated[
        int | None,
        Setting(
            variable="OUTRIDER_MAX_TURNS",
            flag="--max-turns",
            help="replies of the model in one run",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _LIMITS.max_turns
    max_total_tokens: Annotated[
        int | None,
        Setting(
            variable="OUTRIDER_MAX_TOTAL_TOKENS",
            help="input and output tokens of one run",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _LIMITS.max_total_tokens
    max_cost: Annotated[
        float | None,
        Setting(
            variable="OUTRIDER_MAX_COST",
            flag="--max-cost",
            help="US dollars for one run",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _LIMITS.max_cost
    max_seconds: Annotated[
        float | None,
        Setting(variable="OUTRIDER_MAX_SECONDS", help="wall time of one run", consent=if_higher(_LONGER_RUN)),
    ] = _LIMITS.max_seconds
    max_repeats: Annotated[
        int | None,
        Setting(
            variable="OUTRIDER_MAX_REPEATS",
            help="turns in a row without anything new: the same calls with the same results as before",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _LIMITS.max_repeats
    max_subagents: Annotated[
        int | None,
        Setting(
            variable="OUTRIDER_MAX_SUBAGENTS", help="sub-agents that one run starts", consent=if_higher(_LONGER_RUN)
        ),
    ] = _LIMITS.max_subagents
    tool_seconds: Annotated[
        float | None,
        Setting(
            variable="OUTRIDER_TOOL_SECONDS",
            help="wall time of one call, for tools without a limit of their own",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _LIMITS.tool_seconds
    result_characters: Annotated[
        int,
        Setting(
            help="characters of one result that the model reads; the whole result is stored",
            consent=if_higher("results may be longer than you have set"),
        ),
    ] = _LIMITS.result_characters
    attachment_bytes: Annotated[
        int,
        Setting(
            help="the largest file that a tool or a person may attach",
            consent=if_higher("files may be larger than you have set"),
        ),
    ] = _LIMITS.attachment_bytes


class RetrySettings(Retry, frozen=True):
    """The declarations of the settings for `Retry`, which has the defaults. `Settings.retry` itself is a `Retry`."""

    seconds: Annotated[
        float,
        Seconds(most=86_400),
        Setting(
            variable="OUTRIDER_RETRY_SECONDS",
            help="seconds for which a request is retried, with growing delays, when the API is overloaded or the "
            "stream breaks; 0 for no retry. A part of a reply starts them anew, at most five times",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _RETRY.seconds
    idle_seconds: Annotated[
        float,
        Setting(
            variable="OUTRIDER_IDLE_SECONDS",
            help="seconds without anything new in a stream, keep-alives aside, after which it counts as broken",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = _RETRY.idle_seconds


class ContextSettings(msgspec.Struct, frozen=True):
    """When a conversation is shortened because the model's context window fills up."""

    compact_at: Annotated[
        float | None,
        Share(optional=True),
        Setting(
            variable="OUTRIDER_COMPACT_AT",
            help="the share of the model's context window at which the conversation is summarised; `none` waits until "
            "the API refuses a request",
            consent=None,
        ),
    ] = _COMPACTION.threshold
    clear_at: Annotated[
        float | None,
        Share(optional=True),
        Setting(
            variable="OUTRIDER_CLEAR_AT",
            help="the share of the context window at which old results are replaced by one line each, if that saves a "
            "fifth of the window; `none` for never",
            consent=None,
        ),
    ] = _COMPACTION.clear_threshold

    @property
    def compaction(self) -> Compaction:
        """The policy of agents."""
        return Compaction(threshold=self.compact_at, clear_threshold=self.clear_at)


class SubagentSettings(msgspec.Struct, frozen=True):
    """How sub-agents answer."""

    result_characters: Annotated[
        int,
        Setting(
            help="characters of one sub-agent's answer that the model reads, at most `limits.result_characters`; "
            "the whole answer is stored",
            consent=if_higher("answers of sub-agents may be longer than you have set"),
        ),
    ] = 10_000


class McpSettings(msgspec.Struct, frozen=True):
    """How MCP servers are used."""

    tools_share: Annotated[
        float,
        Share(),
        Setting(
            help="the share of the context window that the tools of MCP servers may take; above it the "
            "model searches for them",
            consent=if_higher("tools of MCP servers may take more of the context window than you have set"),
        ),
    ] = 0.05
    start_seconds: Annotated[
        float,
        Seconds(most=600),
        Setting(
            help="seconds that `-p` waits for MCP servers to start; a chat waits at most one",
            consent=if_higher(_LONGER_RUN),
        ),
    ] = 10.0


class HookSettings(msgspec.Struct, frozen=True):
    """How hooks run."""

    access: Annotated[
        Access,
        Setting(
            variable="OUTRIDER_HOOKS_ACCESS",
            help='what hooks may touch in the sandbox: `"read"`, `"write"` in the folder, `"network"` as well; '
            '`"full"` runs them without the sandbox',
            consent=if_looser("read", "write", "network", "full", why="hooks may do more than you have set"),
        ),
    ] = "write"
    files: Annotated[
        JsonFiles,
        Setting(
            help="more JSON files with hooks, beside those that are found; see `outrider hooks`",
            consent=if_adds("the programs in these files run on their own"),
        ),
    ] = ()


class SessionsSettings(msgspec.Struct, frozen=True):
    """What is kept of sessions besides the conversation."""

    titles: Annotated[
        bool,
        Setting(
            variable="OUTRIDER_TITLES",
            help="whether the fast model of the session's provider makes a title from the first exchange, in the chat "
            "and in editors; otherwise the title is the beginning of the first prompt",
            consent=if_on("a small request is sent for the title of each session, at a price"),
        ),
    ] = True
    snapshots: Annotated[
        bool,
        Setting(
            variable="OUTRIDER_SNAPSHOTS",
            help="whether the files of the folder are recorded before calls that may change them, so that a rewind can "
            "restore them",
            consent=if_off("a rewind cannot restore files"),
        ),
    ] = True


class ChatSettings(msgspec.Struct, frozen=True):
    """How the chat looks."""

    show_thinking: Annotated[
        bool, Setting(help="whether the chat shows the model's thinking in full instead of folded", consent=None)
    ] = False
    theme: Annotated[
        Theme,
        Setting(
            help='colours for a `"light"` or a `"dark"` background; `"auto"` asks the terminal. '
            "`NO_COLOR` turns colours off",
            consent=None,
        ),
    ] = "auto"
    notify: Annotated[
        Notify,
        Setting(
            help="what happens when a question waits or a turn of more than 10 seconds ends: "
            '`"bell"` rings the bell of the terminal, `"desktop"` sends a notification (OSC 9)',
            consent=None,
        ),
    ] = "bell"
    vi_keys: Annotated[bool, Setting(help="whether the line is edited with the keys of vi", consent=None)] = False
    status_line: Annotated[
        str | None,
        Setting(
            help="the line below the input, with fields in braces: `{model}`, `{effort}`, `{mode}`, `{sandbox}`, "
            "`{context}`, `{cost}`, `{tasks}`, `{folder}`, `{branch}`. A part between ` · ` without values is left out",
            unset="built in",
            consent=if_set("the line below the input may say something else than you expect"),
        ),
    ] = None
    status_command: Annotated[
        str | None,
        Setting(
            help="a shell command whose first line of output is the line below the input; it gets the fields as JSON "
            "on standard input",
            consent=if_set("this command runs without asking you, with all your rights"),
        ),
    ] = None


class AcpSettings(msgspec.Struct, frozen=True):
    """How editors receive updates."""

    full_updates: Annotated[
        tuple[str, ...],
        TextList("names of editors"),
        Setting(
            flag="--full-updates",
            help="names of editors that need each update of a call in full, because they forget omitted fields; "
            '`["*"]` for every editor',
            consent=None,
        ),
    ] = ()
    update_interval: Annotated[
        float,
        Seconds(most=1),
        Setting(
            flag="--update-interval",
            help="seconds, from 0 to 1, for which changes of a call are collected into one update; "
            "0 sends each change at once",
            consent=None,
        ),
    ] = 0.05


class TelemetrySettings(msgspec.Struct, frozen=True):
    """What is exported to OpenTelemetry."""

    export: Annotated[
        bool,
        Setting(
            variable="OUTRIDER_TELEMETRY",
            help="whether spans and metrics are sent to the endpoint of the `OTEL_*` variables (docs/telemetry.md)",
            consent=if_on("what your sessions do is sent to the endpoint of the OTEL_* variables"),
        ),
    ] = False
    capture: Annotated[
        bool,
        Setting(
            help="whether spans contain the text of prompts, replies, calls and results as well",
            consent=if_on("prompts, replies and results of tools are sent to the endpoint of the OTEL_* variables"),
        ),
    ] = False


Lean: TypeAlias = Literal["auto", "on", "off"]
"""When the agent has its lean form."""


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set."""

    model: Annotated[
        str | None,
        Setting(
            variable="OUTRIDER_MODEL",
            flag="--model",
            help="the model; if not set, a balanced model of the first provider that has a key",
            unset="a balanced one of the first provider with a key",
            consent=if_other_provider("the conversation, including files, is sent to another provider"),
        ),
    ] = None
    effort: Annotated[
        Effort | None,
        Setting(
            variable="OUTRIDER_EFFORT",
            flag="--effort",
            help='how much the model thinks: `"none"`, `"low"`, `"medium"`, `"high"` or `"max"`; ignored where a model '
            "does not have the level",
            unset="the provider's default",
            consent=if_more_effort("replies may take longer and cost more than you have set"),
        ),
    ] = None
    tools: Annotated[
        ToolNames | None,
        Setting(
            variable="OUTRIDER_TOOLS",
            flag="--tools",
            help='the built-in tools that the agent and its sub-agents may use, such as `["Read", "Grep"]`; if not '
            'set, all. `["Task"]` alone is an error: list the tools of the sub-agents too',
            unset="all",
            consent=if_adds_tools("tools that you have left out can be used"),
        ),
    ] = None
    lean: Annotated[
        Lean,
        Setting(
            variable="OUTRIDER_LEAN",
            flag="--lean",
            help='a short prompt and six tools in few words: `"on"`, `"off"`, or `"auto"` for models whose context '
            "window is known to be under 32k tokens",
            consent=None,
        ),
    ] = "auto"
    tool_files: Annotated[
        PythonFiles,
        Setting(
            flag="--tools",
            help="Python files with your own `@tool` functions; loading a file runs it",
            consent=if_adds("these files run as programs, with all your rights"),
        ),
    ] = ()
    log: Annotated[
        str | None,
        Setting(
            variable="OUTRIDER_LOG",
            flag="--log",
            help="where sessions are kept: a folder, or the URL of a Postgres database "
            "(`postgresql://user@host/database`); give its password in `OUTRIDER_LOG`, `PGPASSWORD` or a password file",
            unset="a folder in the data folder",
            consent=if_set("your conversations are kept in another place"),
        ),
    ] = None
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    web: WebSettings = WebSettings()
    limits: Annotated[Limits, LimitSettings()] = Limits()
    retry: Annotated[Retry, RetrySettings()] = Retry()
    context: ContextSettings = ContextSettings()
    subagents: SubagentSettings = SubagentSettings()
    mcp: McpSettings = McpSettings()
    hooks: HookSettings = HookSettings()
    sessions: SessionsSettings = SessionsSettings()
    chat: ChatSettings = ChatSettings()
    acp: AcpSettings = AcpSettings()
    telemetry: TelemetrySettings = TelemetrySettings()


def flatten(settings: Settings) -> dict[str, Any]:
    """Return each value under its dotted key.

    >>> flatten(Settings())["limits.max_turns"]
    50
    """
    flat: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            flat |= {f"{name}.{field}": getattr(value, field) for field in value.__struct_fields__}
        else:
            flat[name] = value
    return flat


def unflatten(values: dict[str, Any]) -> Settings:
    """Build settings from checked values under their dotted keys. Missing keys have their defaults."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    top = sections.pop("", {})
    defaults = Settings()
    return Settings(**top, **{name: type(getattr(defaults, name))(**given) for name, given in sections.items()})
