#!/bin/bash
python3 - <<'END'
from pathlib import Path

path = Path("figures.py")
path.write_text(path.read_text().replace("""    numbers.sort()
    return numbers[len(numbers) // 2]
""", """    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
"""))
END
