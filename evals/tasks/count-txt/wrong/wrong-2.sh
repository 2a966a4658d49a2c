# Works for the folder that was tried.
cat >count.sh <<'END'
ls sample/*.txt | wc -l
END
