"""Show what the modules do: python3 main.py"""

from app.customers import customer_key, same_customer
from app.notes import note_title
from app.orders import order_label
from app.products import search_words
from app.tags import tag_list

print(order_label(77, "  Fell & Sons. "))
print(customer_key("Maja  Lindqvist,"), same_customer("Ben Okafor", "ben okafor."))
print(search_words("Lamp, white shade;  Lamp"))
print(note_title("call the plumber! Before noon."))
print(tag_list("new |  Sale. || "))
