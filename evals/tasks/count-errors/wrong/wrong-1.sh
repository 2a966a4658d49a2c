# Counts "error" in messages, too.
grep -ci error server.log >answer.txt
