"""Letters to users: python3 mail.py"""

from orders import buyer, buyers
from users import get_user, get_user_agent, get_users


def greeting(number):
    """Return the first line of a letter."""
    return f"Dear {get_user(number)}, you use {get_user_agent(number)}."


if __name__ == "__main__":
    for number in (1, 2, 3):
        print(greeting(number))
    print("Order 503:", buyer(503))
    print("Buyers:", ", ".join(buyers()))
    print("Users:", ", ".join(map(str, filter(get_user, (1, 2, 7)))), "of", len(get_users()))
