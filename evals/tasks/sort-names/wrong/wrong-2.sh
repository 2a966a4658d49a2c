# No two neighbours are the same.
uniq guests.txt >sorted.txt
