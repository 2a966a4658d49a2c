// A front end on the official client of AG-UI: a run with a call, an interrupt, and the run that answers it.

const { HttpAgent } = await import(`${process.env.AG_UI_CLIENT}/node_modules/@ag-ui/client/dist/index.mjs`);
const agent = new HttpAgent({
  url: `${process.env.OUTRIDER_URL}/ag-ui/run`,
  threadId: "npm",
  headers: { "X-User": "ada" },
  initialMessages: [{ id: "1", role: "user", content: "Refund order 17" }],
});
const events = [];
const note = { onEvent: ({ event }) => void events.push(event) };
await agent.runAgent({ runId: "first" }, note);
const { outcome } = events.at(-1);
const [asked] = outcome.interrupts;
await agent.runAgent({ runId: "second", resume: [{ interruptId: asked.id, status: "resolved", payload: true }] }, note);
const roles = agent.messages.map((each) => each.role);
console.log(JSON.stringify({ asked: asked.message, last: events.at(-1).type, roles, said: agent.messages.at(-1).content }));
