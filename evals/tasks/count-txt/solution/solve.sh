#!/bin/bash
cat >count.sh <<'END'
find "$1" -maxdepth 1 -type f -name '*.txt' | wc -l
END
