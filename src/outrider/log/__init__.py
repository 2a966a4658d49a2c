"""The durable log: every session as a series of entries that only grows, and the files that they refer to.

The commit order is a contract:
- what the person says is on disk before the model is asked;
- a reply is on disk before any of its calls is carried out, and before observers are told of it;
- the intent of a call (its arguments, its effect, its idempotency key) is on disk before its tool runs;
- the result of a call is on disk before observers are told of it, and before the model is asked again.

So what a person was shown as done is there after a crash, and what was going on can be settled: see `replay`.
"""
