# The port of the profile, without the steps of the instance.
echo 8140 >answer.txt
