# Looks into subfolders, too.
cat >count.sh <<'END'
find "$1" -name '*.txt' | wc -l
END
