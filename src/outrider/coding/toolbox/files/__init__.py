"""The tools that read, write and edit files."""
