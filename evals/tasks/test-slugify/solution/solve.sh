#!/bin/bash
cat >test_slug.py <<'END'
import unittest

from slug import slugify


class SlugifyTest(unittest.TestCase):
    def test_small_letters(self):
        self.assertEqual(slugify("Hello"), "hello")

    def test_runs_of_spaces(self):
        self.assertEqual(slugify("a   b c"), "a-b-c")

    def test_other_characters(self):
        self.assertEqual(slugify("what?! 100%"), "what-100")

    def test_ends(self):
        self.assertEqual(slugify(" -a b- "), "a-b")


if __name__ == "__main__":
    unittest.main()
END
