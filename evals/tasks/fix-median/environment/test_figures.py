import unittest

from figures import mean, median, spread


class FiguresTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_median_of_an_odd_count(self):
        self.assertEqual(median([9, 1, 5]), 5)

    def test_median_of_an_even_count(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_median_keeps_the_order(self):
        numbers = [3, 1, 2]
        median(numbers)
        self.assertEqual(numbers, [3, 1, 2])

    def test_nothing_has_no_median(self):
        with self.assertRaises(ValueError):
            median([])

    def test_spread(self):
        self.assertEqual(spread([5, 2, 11]), 9)


if __name__ == "__main__":
    unittest.main()
