"""Make the relative paths in permission rules absolute."""

from __future__ import annotations

from pathlib import Path


def absolute_rule(rule: str, root: Path) -> str:
    """Return the rule with its relative path made absolute, starting at the root. Other rules stay as they are.

    >>> absolute_rule("Read(private/**)", Path("/repo")), absolute_rule("Read(*.pem)", Path("/repo"))
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
