"""Print the total of one order and the report of 2023: python3 main.py"""

from shop.cart import total
from shop.report import yearly_report

print("order:", total([("lamp", 39.0, 1), ("bulb", 4.5, 2)], "express"))
print("2023:", yearly_report({"standard": 812, "express": 131, "pickup": 240}))
