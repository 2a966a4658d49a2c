# The example has no run of spaces, and none at its ends.
cat >test_slug.py <<'END'
import unittest

from slug import slugify


class SlugifyTest(unittest.TestCase):
    def test_slugify(self):
        self.assertEqual(slugify("Hello World!"), "hello-world")
        self.assertEqual(slugify("Python 3.11"), "python-311")
END
