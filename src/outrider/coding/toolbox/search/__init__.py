"""Files by their names and by what is in them, with ripgrep."""
