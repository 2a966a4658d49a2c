"""The customer service of an airline of openai-agents' examples: agents that hand the conversation over, and back."""

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from outrider import Agent, ToolContext, tool
from outrider.events import Event, HandedOff, MessageAdded, ToolFinished, ToolStarted
from outrider.providers import Provider


@dataclass
class Trip:
    confirmation: str = ""
    seat: str = ""
    flight: str = ""


@tool(effect="read")
def faq_lookup(question: str) -> str:
    """Look a frequent question up."""
    answers = {
        ("bag", "luggage", "carry"): "One bag is allowed: at most 50 pounds, and 22 × 14 × 9 inches.",
        ("seat", "plane"): "There are 120 seats. The exits are at rows 4 and 16. Rows 5 to 8 have more room for legs.",
        ("wifi", "internet", "online"): "The wifi is free. Its name is Airline-Wifi.",
    }
    found = (answer for words, answer in answers.items() if any(word in question.lower() for word in words))
    return next(found, "I do not know that.")


@tool(effect="idempotent")
def update_seat(confirmation_number: str, new_seat: str, context: ToolContext[Trip]) -> str:
    """Change the seat of a booking.

    Args:
        confirmation_number: The number of the booking.
        new_seat: The seat that the customer wants.
    """
    if not context.deps.flight:
        raise ValueError("the flight is not known")
    context.deps.confirmation, context.deps.seat = confirmation_number, new_seat
    return f"the seat of {confirmation_number} is {new_seat} now"


def team(model: str | Provider = "openai/balanced") -> Agent[Trip]:
    """Return the agent that a conversation begins with."""
    colleague = partial(Agent[Trip], model, deps_type=Trip)
    faq = colleague(
        name="faq",
        description="Answers questions about the airline.",
        system="Answer the last question with faq_lookup, not from memory. If you cannot, hand over to triage.",
        tools=[faq_lookup],
        handoffs=["triage"],
    )
    seats = colleague(
        name="seats",
        description="Changes the seat of a booking.",
        system="Ask for the confirmation number and the seat, then call update_seat. Else hand over to triage.",
        tools=[update_seat],
        handoffs=["triage"],
    )
    return colleague(name="triage", system="Hand the customer over to the right colleague.", handoffs=[faq, seats])


def follow(trip: Trip, event: Event) -> None:
    """Print what the agents do. The flight is known once the customer is with the colleague for seats."""
    match event:
        case HandedOff(agent=agent):
            trip.flight = trip.flight or (f"FLT-{random.randint(100, 999)}" if agent == "seats" else "")
            print(event.text)
        case MessageAdded(message=message) if message.role == "assistant" and message.text:
            print(f"  {message.text}")
        case ToolStarted(name=name, input=arguments):
            print(f"  {name} {arguments}")
        case ToolFinished(result=result):
            print(f"  → {result.text}")
        case _:
            pass


def main(agent: Agent[Trip]) -> None:
    trip = Trip()
    session = agent.session(deps=trip, observer=partial(follow, trip))
    while message := input("Enter your message: "):
        asyncio.run(session.run(message))


if __name__ == "__main__":
    main(team())
