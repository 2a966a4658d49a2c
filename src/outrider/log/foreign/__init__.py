"""Sessions of other agents, Claude Code and Codex, read from their files into the log.

What a file says is untrusted, as in every import: it names a model and a folder, and neither is used. Signatures and
encrypted reasoning are left out, because only the API that wrote them could check them.
"""
