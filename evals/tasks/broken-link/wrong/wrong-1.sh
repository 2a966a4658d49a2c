# The link has a page now, but the wrong one.
echo '# Installation' >docs/instalation.md
