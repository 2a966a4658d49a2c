"""A session in a log: each step is on disk before the next one begins."""

import asyncio
import tempfile

from outrider import Agent, Log, Session, tool
from outrider.testing import ScriptedModel, call


@tool(effect="idempotent")
def book(seat: str) -> str:
    """Book a seat."""
    return f"booked {seat}"


def main() -> None:
    log = Log(tempfile.mkdtemp())  # use a permanent folder in your own program
    model = ScriptedModel([call("book", seat="12A"), "Seat 12A is yours."])
    with Session.open(log, agent=Agent(model=model, tools=[book])) as session:
        print(asyncio.run(session.run("Book me a window seat.")).text)
    for record in log.records(session.id):
        print(record.seq, record.entry.kind)
    log.close()


if __name__ == "__main__":
    main()
