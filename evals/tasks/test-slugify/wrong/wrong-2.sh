# Expects what the function does not promise: a hyphen for each character that is dropped.
cat >test_slug.py <<'END'
import unittest

from slug import slugify


class SlugifyTest(unittest.TestCase):
    def test_small_letters(self):
        self.assertEqual(slugify("Hello"), "hello")

    def test_runs_of_spaces(self):
        self.assertEqual(slugify("a   b c"), "a-b-c")

    def test_other_characters(self):
        self.assertEqual(slugify("3.11"), "3-11")

    def test_ends(self):
        self.assertEqual(slugify(" a "), "a")
END
