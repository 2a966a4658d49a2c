"""The runtime: agents, sessions and the loop.

`session.py` is the loop: `Session.run` repeats `think` and `act`. `Session.open` starts or resumes a session in a log.
`calls.py` runs one tool call, `receiver.py` receives one reply, `run.py` has the limits and the result of a run.
"""
