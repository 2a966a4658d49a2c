"""Entries of the log as data, for programs: those of a conversation, without what only the runtime needs."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.log import entries as logged

Json = dict[str, Any]
PUBLIC: tuple[type[logged.Entry], ...] = (
    *(logged.SessionStarted, logged.SessionSettings, logged.MessageEntry, logged.Intent, logged.CallResult),
    *(logged.AttemptFailed, logged.RunStarted, logged.RunStopped, logged.RunCancelled, logged.SubagentLinked),
    *(logged.CompactionEntry, logged.ResultsClearedEntry, logged.RewindEntry, logged.SessionRecovered),
    *(logged.SteeringQueued, logged.SteeringWithdrawn, logged.TitleEntry, logged.Asked, logged.Decided),
)
"""What the API shows. System prompts, snapshots and unknown entries are left out."""
HIDDEN: dict[type[logged.Entry], tuple[str, ...]] = {
    logged.SessionSettings: ("system", "limits", "elsewhere", "seal", "abridged", "rewound"),
    logged.Intent: ("key",),
    logged.CompactionEntry: ("native",),
    logged.Decided: ("signature",),
}
"""Fields that are left out: keys, signatures, and what the app tells the model."""


def entry_data(record: logged.Record) -> Json | None:
    """Return an entry with its number, its time and its kind, or None for one that is not shown."""
    kind = type(record.entry)
    if kind not in PUBLIC:
        return None
    fields: Json = msgspec.to_builtins(record.entry, enc_hook=str)
    for name in HIDDEN.get(kind, ()):
        fields.pop(name, None)
    if kind is logged.SessionSettings and not fields:
        return None
    return {"seq": record.seq, "time": record.time, "kind": kind.kind, **fields}
