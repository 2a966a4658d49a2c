# Counts lines.
sed -n -e 's/.*Failed password for invalid user \([^ ]*\) .*/\1/p' -e 's/.*Failed password for \([^ ]*\) from.*/\1/p' auth.log |
    sort | uniq -c | sort -rn | head -n 3 | awk '{print $2}' >answer.txt
