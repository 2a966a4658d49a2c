# Repairs the first failure and does not run the tests again.
sed 's/int(float(text) \* 100)/round(float(text) * 100)/' ledger/amounts.py >changed && mv changed ledger/amounts.py
