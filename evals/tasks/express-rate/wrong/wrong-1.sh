# The line that a search for "express" finds: only the reports use it.
sed 's/"express": 12\.5/"express": 14.5/' shop/rates.py >rates.new && mv rates.new shop/rates.py
