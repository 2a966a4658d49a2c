"""Users and the programs that they come with."""

USERS = {1: "Ada", 2: "Linus", 3: "Grace"}
AGENTS = {1: "Firefox", 2: "curl", 3: "Safari"}


def get_user(number):
    """Return the name of a user, or None."""
    return USERS.get(number)


def get_user_agent(number):
    """Return the program of a user."""
    return AGENTS.get(number, "unknown") if get_user(number) else "unknown"


def get_users():
    """Return all names in the order of their numbers."""
    return [get_user(number) for number in sorted(USERS)]
