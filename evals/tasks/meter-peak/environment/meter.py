"""The readings of a power meter, one line an hour: python3 meter.py [--day N]

N is a day of the month. Without it, the readings are those of day 1.
"""

import argparse


def readings(day):
    """Return the 24 readings of a day in kWh, as the meter stored them."""
    state = day * 7919 + 104729
    result = []
    for _ in range(24):
        state = (state * 1103515245 + 12345) % 2**31
        result.append(60 + state // 4096 % 600 / 10)
    return result


def main():
    parser = argparse.ArgumentParser(description="Print the readings of a power meter.")
    parser.add_argument("--day", type=int, default=1, help="day of the month, 1 to 31")
    day = parser.parse_args().day
    for hour, reading in enumerate(readings(day)):
        print(f"day {day} hour {hour} {reading:.1f} kWh")


if __name__ == "__main__":
    main()
