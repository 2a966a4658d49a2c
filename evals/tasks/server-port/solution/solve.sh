#!/bin/bash
sed 's/^port = 8080$/port = 9090/' app.ini >app.ini.new && mv app.ini.new app.ini
