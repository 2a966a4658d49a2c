# Sorts numbers as text.
python3 meter.py --day 17 | LC_ALL=C sort -k 5 | tail -n 1 | cut -d ' ' -f 4 >answer.txt
