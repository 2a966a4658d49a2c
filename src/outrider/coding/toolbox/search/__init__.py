"""The tools that find files by name and by content, with ripgrep."""
