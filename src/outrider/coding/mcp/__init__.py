"""MCP servers of the coding agent: the files that name them, and what front ends do with them."""
