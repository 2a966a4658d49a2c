# Runs the program without an option: day 1.
python3 meter.py | sort -n -k 5 | tail -n 1 | cut -d ' ' -f 4 >answer.txt
