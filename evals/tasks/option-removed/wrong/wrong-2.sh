# The version that deprecated the option.
echo 2.3.0 >answer.txt
