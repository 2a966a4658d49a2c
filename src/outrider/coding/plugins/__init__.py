"""Plugins: folders with a plugin.json (Agent Plugins 1.0.0), skills, MCP servers and more."""
