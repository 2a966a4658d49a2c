"""Outrider as an MCP server: one tool, which runs a task in a durable session."""
