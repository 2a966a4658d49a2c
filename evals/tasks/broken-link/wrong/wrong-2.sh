# The page about updates begins with "Install", too.
sed 's|docs/instalation\.md|docs/updating.md|' README.md >README.new && mv README.new README.md
