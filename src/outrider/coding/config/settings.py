"""All settings. Each annotated field is the only declaration of a setting.

The type, default, environment variable, flag, help text and consent rule of a setting are declared by its field: here,
or in the file of its section. Parsing, validation, `outrider config`, consent and the table in docs/configuration.md
are derived from them. After a change, run `scripts/settings-page`. A new flag also needs an option in the command-line
parser.
"""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from outrider.coding.config.access_settings import (
    HookSettings,
    ManagedSettings,
    PermissionSettings,
    SandboxSettings,
    WebSettings,
)
from outrider.coding.config.declaration import (
    FREE,
    DeclaredSetting,
    Setting,
    declared_settings,
    if_adds,
    if_adds_tools,
    if_more_effort,
    if_off,
    if_on,
    if_other_provider,
    if_set,
)
from outrider.coding.config.run_settings import (
    BudgetSettings,
    ContextSettings,
    LimitSettings,
    McpSettings,
    RetrySettings,
    SubagentSettings,
)
from outrider.coding.config.value_types import Fraction, PythonFiles, TextList, ToolNames, seconds_up_to
from outrider.coding.masking import quoted
from outrider.providers.base import CacheLifetime, Effort
from outrider.runtime.budget import NO_BUDGET, Budget
from outrider.runtime.limits import FORMER_NAMES, Limits
from outrider.runtime.retry import Retry

Notify: TypeAlias = Literal["bell", "desktop", "off"]
Theme: TypeAlias = Literal["auto", "light", "dark"]


class SessionsSettings(msgspec.Struct, frozen=True):
    """What is kept of sessions besides the conversation."""

    titles: Annotated[
        bool,
        Setting(
            "let the provider's fast model make a title in the chat and in editors; otherwise it is the beginning "
            "of the first prompt",
            variable="OUTRIDER_TITLES",
        ),
        if_on("a small request is sent for the title of each session, at a price"),
    ] = True
    snapshots: Annotated[
        bool,
        Setting("record files before calls that may change them, for a rewind", variable="OUTRIDER_SNAPSHOTS"),
        if_off("a rewind cannot restore files"),
    ] = True


class ChatSettings(msgspec.Struct, frozen=True):
    """How the chat looks."""

    show_thinking: Annotated[bool, Setting("show the model's thinking in full instead of folded"), FREE] = False
    theme: Annotated[
        Theme,
        Setting(
            'colours for a `"light"` or `"dark"` background; `"auto"` asks the terminal. `NO_COLOR` turns them off'
        ),
        FREE,
    ] = "auto"
    notify: Annotated[
        Notify,
        Setting(
            'when a question waits or a turn of more than 10 seconds ends: `"bell"` rings, `"desktop"` sends a '
            'notification (OSC 9), `"off"`'
        ),
        FREE,
    ] = "bell"
    vi_keys: Annotated[bool, Setting("edit the line with the keys of vi"), FREE] = False
    status_line: Annotated[
        str | None,
        Setting(
            "the line below the input, with `{model}`, `{effort}`, `{mode}`, `{sandbox}`, `{context}`, "
            "`{cost}`, `{tasks}`, `{folder}`, `{branch}`. A part between ` · ` without values is left out",
            unset="built in",
        ),
        if_set("the line below the input may say something else than you expect"),
    ] = None
    status_command: Annotated[
        str | None,
        Setting("a command that prints that line, from the fields as JSON on standard input"),
        if_set("this command runs without asking you, with all your rights"),
    ] = None


class AcpSettings(msgspec.Struct, frozen=True):
    """How editors receive updates."""

    full_updates: Annotated[
        tuple[str, ...],
        TextList("names of editors"),
        Setting('names of editors that forget fields which an update omits; `["*"]` for all', flag="--full-updates"),
        FREE,
    ] = ()
    update_interval: Annotated[
        float,
        seconds_up_to(1),
        Setting(
            "seconds, from 0 to 1, for which changes of a call are collected; 0 sends each at once",
            flag="--update-interval",
        ),
        FREE,
    ] = 0.05


class TelemetrySettings(msgspec.Struct, frozen=True):
    """What is exported to OpenTelemetry."""

    export: Annotated[
        bool,
        Setting(
            "send spans and metrics to the endpoint of the `OTEL_*` variables ([telemetry](telemetry.md))",
            variable="OUTRIDER_TELEMETRY",
        ),
        if_on("what your sessions do is sent to the endpoint of the OTEL_* variables"),
    ] = False
    capture: Annotated[
        bool,
        Setting("include the text of prompts, replies, calls and results"),
        if_on("prompts, replies and results of tools are sent to the endpoint of the OTEL_* variables"),
    ] = False


__all__ = [
    "AcpSettings",
    "Lean",
    "LimitSettings",
    "Notify",
    "PermissionSettings",
    "SandboxSettings",
    "SessionsSettings",
    "Settings",
    "Theme",
    "WebSettings",
    "flatten",
    "unflatten",
]

Lean: TypeAlias = Literal["auto", "on", "off"]
"""When the agent has its lean form."""
ToolCalls: TypeAlias = Literal["auto", "native", "prompted"]
"""How models of local servers call tools."""


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set."""

    model: Annotated[
        str | None,
        Setting(
            "the [model](models.md#names)",
            variable="OUTRIDER_MODEL",
            flag="--model",
            unset="a balanced one of the first provider with a key",
        ),
        if_other_provider("the conversation, including files, is sent to another provider"),
    ] = None
    effort: Annotated[
        Effort | None,
        Setting(
            'how much the model [thinks](models.md#effort): `"none"`, `"low"`, `"medium"`, `"high"` or `"max"`',
            variable="OUTRIDER_EFFORT",
            flag="--effort",
            unset="the provider's default",
        ),
        if_more_effort("replies may take longer and cost more than you have set"),
    ] = None
    cache: Annotated[
        CacheLifetime | None,
        Setting(
            'how long the provider keeps the [prompt cache](costs.md#caches): `"5m"` or `"1h"`',
            variable="OUTRIDER_CACHE",
            unset="the provider's default",
        ),
        if_set("requests may cost more than you have set"),
    ] = None
    temperature: Annotated[
        float | None,
        Fraction("a number from 0 to 2", 2),
        Setting(
            "the sampling temperature, from 0 to 2, if the model takes one",
            variable="OUTRIDER_TEMPERATURE",
            flag="--temperature",
            unset="the provider's default",
        ),
        FREE,
    ] = None
    tools: Annotated[
        ToolNames | None,
        Setting(
            'built-in tools of the agent and its sub-agents, such as `["Read", "Grep"]`; not `["Task"]` alone',
            variable="OUTRIDER_TOOLS",
            flag="--tools",
            unset="all",
        ),
        if_adds_tools("tools that you have left out can be used"),
    ] = None
    lean: Annotated[
        Lean,
        Setting(
            'the [lean form](providers/local.md#the-lean-form): `"on"`, `"off"`, or `"auto"` for context windows '
            "known to be under 32k tokens",
            variable="OUTRIDER_LEAN",
            flag="--lean",
        ),
        FREE,
    ] = "auto"
    tool_calls: Annotated[
        ToolCalls,
        Setting(
            'how models of local servers call tools: `"native"`, '
            '[`"prompted"`](providers/local.md#models-without-native-tool-calls), or `"auto"`: prompted in the lean '
            "form",
            variable="OUTRIDER_TOOL_CALLS",
        ),
        FREE,
    ] = "auto"
    tool_files: Annotated[
        PythonFiles,
        Setting("Python files with your own `@tool` functions; loading one runs it", flag="--tools"),
        if_adds("these files run as programs, with all your rights"),
    ] = ()
    log: Annotated[
        str | None,
        Setting(
            "a folder for sessions, or a [Postgres database](scale.md#the-log-in-postgres), "
            "`postgresql://user@host/database`",
            variable="OUTRIDER_LOG",
            flag="--log",
            unset="a folder in the data folder",
        ),
        if_set("your conversations are kept in another place"),
    ] = None
    workspace: Annotated[
        str | None,
        Setting(
            "the [place](hands.md#places) where the tools work: `ssh://host/path`, `container:NAME/path`, others",
            flag="--in",
            unset="this machine",
        ),
        if_set("files and commands of the agent are elsewhere, and the program that leads there runs here"),
    ] = None
    container_program: Annotated[
        str | None,
        Setting("the program that runs containers, or the path of one", unset="docker or podman"),
        if_set("this program runs here, with all your rights"),
    ] = None
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    web: WebSettings = WebSettings()
    limits: Annotated[Limits, LimitSettings()] = Limits(max_turns=None)
    budget: Annotated[Budget, BudgetSettings()] = NO_BUDGET
    retry: Annotated[Retry, RetrySettings()] = Retry()
    context: ContextSettings = ContextSettings()
    subagents: SubagentSettings = SubagentSettings()
    mcp: McpSettings = McpSettings()
    hooks: HookSettings = HookSettings()
    sessions: SessionsSettings = SessionsSettings()
    chat: ChatSettings = ChatSettings()
    acp: AcpSettings = AcpSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    managed: ManagedSettings = ManagedSettings()


def flatten(settings: Settings) -> dict[str, Any]:
    """Return each value under its dotted key.

    >>> flatten(Settings())["limits.max_repeats"]
    10
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


SETTINGS: dict[str, DeclaredSetting] = dict(declared_settings(Settings()))
"""In the order in which they are shown."""

DEFAULTS = {key: setting.default for key, setting in SETTINGS.items()}
SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key))
VARIABLES = {setting.variable: key for key, setting in SETTINGS.items() if setting.variable}

FORMER_KEYS = {f"limits.{former}": f"limits.{name}" for former, name in FORMER_NAMES.items()}
FORMER_VARIABLES = {"OUTRIDER_MAX_TOKENS": "OUTRIDER_MAX_TOTAL_TOKENS"}
"""Names in earlier versions. They are refused with the new name: ignoring one would lift a limit."""

_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


def advice(unknown: str, *, is_text: bool = False) -> str:
    """Return what to do about an unknown key, to end a sentence. A text may be a secret, judged by its key."""
    if unknown in FORMER_KEYS:
        return f"it is called {quoted(FORMER_KEYS[unknown])} now"
    if is_text and _SECRET.search(unknown.rpartition(".")[2]):
        return "API keys and passwords do not belong in settings: export them, as in ANTHROPIC_API_KEY=…"
    if meant := _closest_key(unknown):
        return f"did you mean {quoted(meant)}?"
    section = unknown.partition(".")[0]
    known = [key for key in SETTINGS if key.startswith(f"{section}.")] or SETTINGS
    return f"known: {', '.join(known)}"


def _closest_key(unknown: str) -> str:
    """Return the key with the same name in another section, or one that is spelt alike; else ""."""
    last = unknown.rpartition(".")[2].lower()
    elsewhere = [key for key in SETTINGS if key.rpartition(".")[2] == last]
    if len(elsewhere) == 1:
        return elsewhere[0]
    if last in FORMER_NAMES:
        return f"limits.{FORMER_NAMES[last]}"
    from difflib import get_close_matches

    if close := get_close_matches(unknown.lower(), [*SETTINGS, *SECTIONS], 1, 0.7):
        return close[0]
    names = {key.rpartition(".")[2]: key for key in SETTINGS}
    shortened = last.removeprefix("max_").removesuffix("s")
    alike = get_close_matches(last, names, 1, 0.75) or get_close_matches(shortened, names, 1, 0.75)
    return names[alike[0]] if alike else ""
