# Keeps the duplicates.
sort guests.txt >sorted.txt
