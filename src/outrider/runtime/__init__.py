"""The runtime: agents, sessions and the loop.

`agent_loop.py` is the loop: it repeats `think` and `act`. `session.py` has the verbs; `Session.open` starts
or resumes one in a log.
`calls.py` runs one tool call, `receiver.py` receives one reply, `run.py` has the limits and the result of a run.
"""
