"""Agent Skills: folders with a SKILL.md, whose text a model reads when a task needs it."""
