"""A script that keeps its conversation in a file and continues it at every start, with the model that is set.

python held_conversation.py "Read january.txt and february.txt: which month was better?"
OUTRIDER_MODEL=demo python held_conversation.py    # without a key
python held_conversation.py    # continue after a crash, after an error, or with another model
"""

import sys
from pathlib import Path

from outrider import Message, dumps, loads, run, think

KEPT = Path("conversation.json")


def read_file(path: str) -> str:
    """Read a text file."""
    return Path(path).read_text()


def keep(conversation: list[Message]) -> None:
    """Replace the stored conversation. If the process is killed meanwhile, the previous one is still there."""
    fresh = KEPT.with_suffix(".fresh")
    fresh.write_bytes(dumps(conversation).encode())
    fresh.replace(KEPT)
    print(f"  {len(conversation)} messages are kept in {KEPT}")


def main() -> None:
    conversation = loads(KEPT.read_bytes()) if KEPT.exists() else []
    question = " ".join(sys.argv[1:])
    if question or not conversation:
        turn = think(question or f"Read {__file__}", conversation=conversation, tools=[read_file])
        print(f"think: {turn.text} (pending calls: {len(turn.tool_calls)})")
        conversation = turn.conversation
        keep(conversation)
    for _ in range(10):
        result = run(conversation, [read_file], max_turns=2)
        print(f"run: {result.status} (turns: {result.turns})")
        conversation = result.conversation
        keep(conversation)
        if result.status != "max_turns":
            print(result.text if result.status == "done" else result.error)
            break


if __name__ == "__main__":
    main()
