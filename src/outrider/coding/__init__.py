"""The coding agent: settings, permissions and tools for work in a folder."""
