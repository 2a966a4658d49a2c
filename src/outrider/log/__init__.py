"""The durable log: each session is an append-only sequence of entries, plus the files that they refer to.

The commit order is a contract:
- a prompt is on disk before the request to the model;
- a reply is on disk before any of its calls runs, and before observers see it;
- the intent of a call (its arguments, its effect, its idempotency key) is on disk before its tool runs;
- the result of a call is on disk before observers see it, and before the next request.

So everything that the user saw survives a crash, and interrupted calls can be settled: see `replay`.
"""
