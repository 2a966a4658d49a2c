"""The chatbot of LangGraph's tutorial: it searches, remembers, and pauses for a person, whose answer may take days."""

import asyncio

from outrider import Agent, Log, Session, ToolContext, tool, web_search
from outrider.events import MessageAdded, ToolStarted

Answers = asyncio.Queue[str]


@tool(effect="read")
async def human_assistance(query: str, context: ToolContext[Answers]) -> str:
    """Ask a person for help."""
    return await context.deps.get()


chatbot = Agent("anthropic/balanced", tools=[human_assistance], server_tools=[web_search], deps_type=Answers)


async def chat(log: Log, agent: Agent[Answers], answers: Answers, prompt: str = "") -> None:
    """Continue the thread until the bot is done, or has to wait for a person."""
    async with Session.open(log, "thread-1", agent, deps=answers, create=True) as session:
        async for event in session.stream(prompt):
            match event:
                case MessageAdded(message=message):
                    print(f"{message.role}: {message.text or message.content}")
                case ToolStarted(name="human_assistance") if answers.empty():
                    await session.suspend()
                case _:
                    pass


async def main(agent: Agent[Answers] = chatbot) -> None:
    log, answers = Log("threads"), Answers()
    await chat(
        log, agent, answers, "I need expert guidance for building an agent. Could you request assistance for me?"
    )
    answers.put_nowait("Have a look at Outrider: runs survive a restart.")  # any time later, in any process
    await chat(log, agent, answers)


if __name__ == "__main__":
    asyncio.run(main())
