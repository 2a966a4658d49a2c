"""Figures about lists of numbers."""


def mean(numbers):
    """Return the sum divided by the count."""
    if not numbers:
        raise ValueError("no numbers")
    return sum(numbers) / len(numbers)


def median(numbers):
    """Return the middle number, or the mean of the two middle numbers. The list stays as it is."""
    if not numbers:
        raise ValueError("no numbers")
    numbers.sort()
    return numbers[len(numbers) // 2]


def spread(numbers):
    """Return the difference of the largest and the smallest number."""
    if not numbers:
        raise ValueError("no numbers")
    return max(numbers) - min(numbers)
