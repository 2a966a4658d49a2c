# A line that is commented out.
echo 9300 >answer.txt
