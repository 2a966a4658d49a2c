"""Rules about files whose paths count from another folder than the one that is worked in."""

from __future__ import annotations

from pathlib import Path


def absolute(rule: str, root: Path) -> str:
    """The rule with the path of its pattern written out, if it counts from a folder: that is then the root.

    >>> absolute("Read(private/**)", Path("/repo")), absolute("Read(*.pem)", Path("/repo"))
    ('Read(/repo/private/**)', 'Read(*.pem)')
    """
    from outrider.coding.permissions.patterns import escaped
    from outrider.coding.permissions.rules import PATH_TOOLS, Rule

    parsed = Rule.parse(rule)
    pattern = parsed.pattern or ""
    if parsed.tool not in PATH_TOOLS or pattern.startswith(("/", "~")) or "/" not in pattern.rstrip("/"):
        return rule
    while pattern.startswith(("./", "../")):
        root = root.parent if pattern.startswith("../") else root
        pattern = pattern.partition("/")[2]
    return f"{parsed.tool}({escaped(str(root)).rstrip('/')}/{pattern})"
