"""The JSON Schema of Task's arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from outrider.errors import OutriderError
from outrider.providers.catalogue.tiers import TIERS
from outrider.subagents.profile import Profile

ACTIONS = ("status", "wait", "stop")


def default_profile(names: Collection[str]) -> str | None:
    """Return the profile for a task that names none: the only one, or General."""
    return next(iter(names)) if len(names) == 1 else "General" if "General" in names else None


def parameters(profiles: Sequence[Profile], *, isolates: bool) -> Mapping[str, Any]:
    """Return the schema. `output_schema` and `isolation` are offered only if they can be used.

    What starting needs is required of all calls: no API's schema can say that it depends on the others. Task adds
    what other calls leave out.
    """
    if not profiles:
        raise OutriderError("there are no profiles, so no sub-agent could be started")
    names = [profile.name for profile in profiles]
    properties: dict[str, Any] = {
        "description": _text("The task in three to six words, shown to the user."),
        "prompt": _text(
            "The whole task: the sub-agent knows nothing of this conversation. With agent_id: a message to that one."
        ),
        "subagent_type": _text("Which sub-agent to start.") | {"enum": names},
    }
    if with_schemas := [profile.name for profile in profiles if profile.takes_schemas]:
        only = "" if len(with_schemas) == len(profiles) else f" Only for: {', '.join(with_schemas)}."
        properties["output_schema"] = {
            "type": "object",
            "description": "A JSON Schema. If given, the sub-agent returns data that satisfies it, as JSON, "
            f"instead of text.{only}",
        }
    properties["model"] = _text("The model's tier; leave it out unless the task needs another than the profile's.") | {
        "enum": list(TIERS)
    }
    properties["run_in_background"] = {"type": "boolean", "description": "Return at once with an id."}
    if isolates:
        properties["isolation"] = _text(
            "A git worktree of its own, merged when it ends: for sub-agents that change files at the same time."
        ) | {"enum": ["worktree"]}
    properties["agent_id"] = _text(
        "A sub-agent in the background: send it the prompt, also after it has ended, or do the action."
    )
    properties["action"] = _text("Instead of the message. wait: until it ends, without agent_id until all do.") | {
        "enum": list(ACTIONS)
    }
    required = ["description", "prompt"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}
