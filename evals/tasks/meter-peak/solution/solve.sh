#!/bin/bash
python3 meter.py --day 17 | sort -n -k 5 | tail -n 1 | cut -d ' ' -f 4 >answer.txt
