"""A tool with an effect that must happen once: it enters a receipt into the books. For `outrider batch --tools`."""

from __future__ import annotations

import os

from outrider import ToolContext, tool


@tool(effect="write")
def post(receipt: int, total: float, context: ToolContext) -> str:
    """Enter a receipt into the books.

    Args:
        receipt: Its number.
        total: The sum in euros.
    """
    books = os.open(context.cwd / "books.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(books, f"{receipt} {total:.2f} {os.getpid()}\n".encode())
    os.close(books)
    return f"receipt {receipt} is in the books"
