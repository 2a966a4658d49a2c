# Changes the ports of the database, the metrics and the mail, too.
sed 's/^port = .*/port = 9090/' app.ini >app.ini.new && mv app.ini.new app.ini
