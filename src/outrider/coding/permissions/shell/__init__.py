"""Check shell commands. `command_line` is the entry.

`plain_line` reads plain command lines, `short_list` knows the commands that only read, and `command_rules` matches
rules.
"""
