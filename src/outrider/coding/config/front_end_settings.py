"""The settings of what users see and keep: the chat, editors, sessions and telemetry."""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
from typing import Annotated, Literal, TypeAlias

import msgspec

from outrider.coding.config.declaration import FREE, Setting, if_off, if_on, if_set
from outrider.coding.config.value_types import TextList, seconds_up_to

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
