#!/bin/sh
# Check the working folder and write the reward: 1 or 0.
logs="${OUTRIDER_LOGS:-/logs}/verifier"
mkdir -p "$logs"
if python3 -I -S "$(dirname "$0")/check.py"; then reward=1; else reward=0; fi
echo "$reward" >"$logs/reward.txt"
