#!/bin/bash
python3 - <<'END'
import re
from collections import Counter

FAILED = re.compile(r"(?:message repeated (\d+) times: \[ )?Failed password for (?:invalid user )?(\S+) from")
attempts = Counter()
with open("auth.log") as log:
    for found in filter(None, map(FAILED.search, log)):
        attempts[found[2]] += int(found[1] or 1)
with open("answer.txt", "w") as answer:
    for name, _ in attempts.most_common(3):
        print(name, file=answer)
END
