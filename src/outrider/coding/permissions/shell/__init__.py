"""Check shell commands. `checker` is the entry; `parser` turns a command line into a `script.Script`.

`rule_matching`, `read_only`, `unsafe_options`, `path_arguments` and `stdin` answer the questions that the checker asks
about one command.
"""
