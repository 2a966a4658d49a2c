"""Shell commands, their processes, their output and their sandbox."""
