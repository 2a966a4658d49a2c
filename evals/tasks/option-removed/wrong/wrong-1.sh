# The version that was announced.
echo 3.0.0 >answer.txt
