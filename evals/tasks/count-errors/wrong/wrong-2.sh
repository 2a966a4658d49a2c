# Counts all lines.
wc -l <server.log >answer.txt
