"""The Bash tool: commands, their processes and their output."""
