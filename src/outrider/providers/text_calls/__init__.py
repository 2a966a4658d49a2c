"""Tools for models without native calls: they write their calls as text."""
