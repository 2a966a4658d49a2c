echo "version 7 of the timetable"
