import unittest

from ledger.entries import parse, read
from ledger.report import report

MARCH = ["# March", "2026-03-02;Rent;-640.00", "2026-03-05;Food;-19.99", "", "2026-03-28;Salary;2150.00"]
APRIL = ["2026-04-02;Rent;-640.00", "2026-04-09;Food;-8.20"]


class LedgerTest(unittest.TestCase):
    def test_a_line_has_an_entry(self):
        self.assertEqual(parse("2026-03-05; Food ;-19.99"), ("2026-03-05", "food", -1999))

    def test_comments_have_none(self):
        self.assertEqual(len(read(MARCH)), 3)

    def test_the_report_of_march(self):
        self.assertEqual(report(MARCH), ["food: -19.99", "rent: -640.00", "salary: 2150.00", "2026-03: 1490.01"])

    def test_the_report_of_two_months(self):
        self.assertEqual(
            report(MARCH + APRIL),
            ["food: -28.19", "rent: -1280.00", "salary: 2150.00", "2026-03: 1490.01", "2026-04: -648.20"],
        )


if __name__ == "__main__":
    unittest.main()
