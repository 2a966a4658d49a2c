"""count.sh counts the .txt files of the folders that it is given.

Wrong: it counts those of subfolders, too (wrong-1); it always counts those of sample (wrong-2).
"""

import subprocess
import tempfile
from pathlib import Path

FOLDERS = [
    (["a.txt", "b c.txt", "c.md", "d.txt.bak", "txt", "notes-txt.md", "sub/e.txt", "sub/f.txt", "g.txt"], 3),
    (["readme.md", "sub/a.txt"], 0),
    ([f"{number}.txt" for number in range(17)], 17),
]
with tempfile.TemporaryDirectory() as top:
    for index, (names, count) in enumerate(FOLDERS):
        folder = Path(top, f"folder{index}")
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text\n")
        ended = subprocess.run(["bash", "count.sh", str(folder)], capture_output=True, text=True, timeout=5)
        assert ended.stdout.split() == [str(count)], (names, ended.stdout)
