"""Durability: child processes are killed, others resume the session, and a judge checks the log.

`script` is the conversation, with tools that leave marks on disk. `child` is the program that has it; `points` are the
instants at which it can kill itself, `sabotage` breaks it on purpose. `nursery` forks children from a warm process.
`trial` kills one and lets others finish; `judge` says what is wrong afterwards.
"""
