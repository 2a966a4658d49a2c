"""Permissions: decide whether a tool call runs, needs approval, or is denied.

`decision.decide` is the entry: it decides about one call. `approver.PermissionApprover` calls it for a session and asks
the user. `policy.Policy` holds the mode and the rules. `file_access` and `shell.command_line` check the parts of a
call.
"""
