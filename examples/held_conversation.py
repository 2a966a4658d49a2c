"""A script that holds its conversation: a file has it, and every start goes on from there, with whatever model is set.

python held_conversation.py "Read january.txt and february.txt: which month was better?"
python held_conversation.py    # goes on, after a crash, after an error, or with another model
"""

import sys
from pathlib import Path

from outrider import Message, dumps, loads, run, think

KEPT = Path("conversation.json")


def read_file(path: str) -> str:
    """Read a text file."""
    return Path(path).read_text()


def keep(conversation: list[Message]) -> None:
    """Put the conversation into the place of the one before; whoever is killed in between still has that one."""
    fresh = KEPT.with_suffix(".fresh")
    fresh.write_bytes(dumps(conversation).encode())
    fresh.replace(KEPT)
    print(f"  {len(conversation)} messages are kept in {KEPT}")


def main() -> None:
    conversation = loads(KEPT.read_bytes()) if KEPT.exists() else []
    question = " ".join(sys.argv[1:])
    if question or not conversation:
        turn = think(question or f"Read {__file__}", conversation=conversation, tools=[read_file])
        print(f"think: {turn.content} (calls that wait: {len(turn.tool_calls)})")
        conversation = turn.conversation
        keep(conversation)
    for _ in range(10):
        result = run(conversation, [read_file], max_turns=2)
        print(f"run: {result.status} (turns: {result.turns})")
        conversation = result.conversation
        keep(conversation)
        if result.status != "max_turns":
            break
    print(result.text if result.status == "done" else result.error)


if __name__ == "__main__":
    main()
