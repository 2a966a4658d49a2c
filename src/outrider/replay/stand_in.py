"""The agent of a replay: its model, its person and its tools are the tape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from outrider.errors import OutriderError, SchemaError
from outrider.log import entries as kinds
from outrider.log.entries import Entry, MessageEntry
from outrider.providers.catalogue.windows import window_of
from outrider.replay.player import HOOK_SAYS, PlayedModel, PlayedTool, Player
from outrider.replay.tape import models_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.handoffs import TOOL as HANDOFF
from outrider.runtime.hooks import Hooks
from outrider.runtime.structured_output import TOOL as REPORT
from outrider.runtime.structured_output import WRAPPED, Report
from outrider.tools.tool import Tool, make_tool


def played_agent(given: AgentSpec[Any], player: Player, model: str, *, runs_tools: bool) -> AgentSpec[Any]:
    """Return an agent that is replayed. Its servers start only if the tools run."""
    tools = tuple(_played(tool, player) for tool in given.tools)
    mcp = given.mcp if runs_tools else ()
    return given.replace(tools=tools, mcp=mcp, compaction=None, **_played_by(player, model, given))


def recorded_agent(player: Player, model: str) -> AgentSpec[Any]:
    """Return an agent that is made from the tape, with a tool for each name in it."""
    entries = player.tape.entries
    return _team(entries, tuple(_tools(entries, player)), **_played_by(player, model))


def report_of(requested: kinds.Requested, agent: AgentSpec[Any]) -> Report | None:
    """Return the report that a recorded run was asked for, by the API or by a tool that the agent itself has not."""
    tools = () if isinstance(requested.tools, msgspec.UnsetType) else requested.tools
    names = {tool.name for tool in agent.tools}
    schemas = [tool.parameters for tool in tools if tool.name == REPORT and REPORT not in names]
    if isinstance(requested.output_schema, dict):
        schemas = [requested.output_schema]
    for schema in schemas:
        inner = schema.get("properties", {}).get(WRAPPED)
        shared = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
        for each in (*([{**inner, **shared}] if isinstance(inner, Mapping) else []), schema):
            with suppress(SchemaError):
                if (report := Report(each)).tool.parameters == schema:
                    return report
    return None


def _played_by(player: Player, name: str, given: AgentSpec[Any] | None = None) -> dict[str, Any]:
    """Return the models and hooks of an agent: as many models as the recorded session went through."""
    entries = player.tape.entries
    window, least = (window_of(given.provider), 1 + len(given.fallbacks)) if given else (None, 1)
    count = max(models_of(entries), least)
    models = [PlayedModel(player, name, window) for _ in range(count)]
    hooks = Hooks(stop=(player.stop_hook,), subagent_stop=(player.stop_hook,)) if _has_hooks(entries) else Hooks()
    return {"model": models[0], "fallbacks": tuple(models[1:]), "hooks": hooks}


def _played(tool: Tool, player: Player) -> Tool:
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    return PlayedTool(**fields, play=player.play)


def _tools(entries: list[Entry], player: Player) -> Iterator[Tool]:
    """Yield a tool for each name that was offered or called, with the effect that its calls had."""
    effects: dict[str, Any] = {}
    names: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, kinds.Requested) and not isinstance(entry.tools, msgspec.UnsetType):
            effects |= {spec.name: effects.get(spec.name, "write") for spec in entry.tools}
        elif isinstance(entry, MessageEntry):
            names |= {call.id: call.name for call in entry.message.tool_calls}
        elif isinstance(entry, kinds.Intent):
            effects[names.get(entry.call_id, entry.name)] = entry.effect

    async def nothing(**arguments: Any) -> str:
        return ""

    for name, effect in effects.items():
        with suppress(OutriderError):  # a foreign log may name anything
            made = make_tool(
                nothing, name=name, description="", effect=effect, schema={"type": "object"}, built_in=True
            )
            yield _played(made, player)


def _team(entries: list[Entry], tools: tuple[Tool, ...], **options: Any) -> AgentSpec[Any]:
    """Return the agent that begins, with those that it hands over to."""
    reached = [each.handoff for each in entries if isinstance(each, kinds.CallResult) and each.handoff]
    former = [each.former for each in entries if isinstance(each, kinds.SessionSettings) and each.agent and each.former]
    first = former[0] if former else "agent"
    names = [name for name in dict.fromkeys([*reached, *former]) if name and name != first]
    if not names:
        return AgentSpec(tools=tools, name=first, compaction=None, **options)
    options |= {"tools": tuple(tool for tool in tools if tool.name != HANDOFF), "compaction": None}
    others = [AgentSpec(name=each, handoffs=(first, *(n for n in names if n != each)), **options) for each in names]
    return AgentSpec(name=first, handoffs=tuple(others), **options)


def _has_hooks(entries: list[Entry]) -> bool:
    said = (each.message for each in entries if isinstance(each, MessageEntry) and each.message.role == "user")
    return any(message.text.startswith(HOOK_SAYS) for message in said)
