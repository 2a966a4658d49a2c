"""sorted.txt has each name once, in order.

Wrong: duplicates are kept (wrong-1); only duplicates on neighbouring lines are dropped, and nothing is sorted
(wrong-2).
"""

from pathlib import Path

NAMES = """
Amara Bo Chiara Dmitri Elif Farid Greta Hamza Ingrid Jonas Kaito Leila Mateo
Nadia Oskar Priya Quentin Rosa Soren Tariq Ulla Viktor Wanda Ximena Yusuf Zora
"""
lines = [line.strip() for line in Path("sorted.txt").read_text(encoding="utf-8").splitlines()]
assert [line for line in lines if line] == NAMES.split(), lines
