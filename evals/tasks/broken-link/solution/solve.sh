#!/bin/bash
sed 's|docs/instalation\.md|docs/installing.md|' README.md >README.new && mv README.new README.md
