// The official TypeScript SDK as a client of the draft of version 2: turns end with a state, content comes in chunks.
import { readFile } from "node:fs/promises";
import { occasion, play, report, sdk, startAgent } from "./agent.mjs";

const acp = await sdk("@agentclientprotocol/sdk/experimental/v2");
const { agent: asks, client: hears } = acp.methods;

class Editor {
  constructor() {
    this.told = new Map();
    this.permissions = [];
    this.answer = "allow_once";
    this.watches = new Set();
    this.process = startAgent(acp, "--v2");
    const app = acp
      .client({ name: "interop" })
      .onNotification(hears.session.update, ({ params }) => this.hear(params))
      .onRequest(hears.session.requestPermission, ({ params }) => this.permit(params));
    this.agent = app.connect(this.process.stream).agent;
  }

  hear({ sessionId, update }) {
    this.told.set(sessionId, [...(this.told.get(sessionId) ?? []), update]);
    for (const watch of [...this.watches]) watch(sessionId, update);
  }

  permit(question) {
    this.permissions.push(question);
    const option = question.options.find(({ kind }) => kind === this.answer);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  }

  /** Kept with the first update of a session that is as wanted. */
  until(session, wanted) {
    const { promise, keep } = occasion();
    const watch = (sessionId, update) => {
      if (sessionId !== session || !wanted(update)) return;
      this.watches.delete(watch);
      keep(update);
    };
    this.watches.add(watch);
    return promise;
  }

  initialize() {
    const info = { name: "interop", version: "1" };
    return this.agent.request(asks.initialize, { protocolVersion: 2, info, capabilities: {} });
  }

  async open(folder) {
    return (await this.agent.request(asks.session.new, { cwd: folder, mcpServers: [] })).sessionId;
  }

  set(sessionId, configId, value) {
    return this.agent.request(asks.session.setConfigOption, { sessionId, configId, type: "id", value });
  }

  /** A turn: from the prompt until the session is idle again. */
  async prompt(sessionId, ...blocks) {
    const before = (this.told.get(sessionId) ?? []).length;
    const prompt = blocks.map((block) => (typeof block === "string" ? { type: "text", text: block } : block));
    const idle = this.until(sessionId, ({ sessionUpdate, state }) => sessionUpdate === "state_update" && state === "idle");
    const { messageId } = await this.agent.request(asks.session.prompt, { sessionId, prompt });
    const { stopReason } = await idle;
    return { stop: stopReason, messageId, updates: this.told.get(sessionId).slice(before) };
  }

  async close() {
    this.process.close();
    return { exit: await this.process.ended };
  }
}

const { folders, prompts } = play;
const editor = new Editor();
report("introduced", await editor.initialize());

const demo = await editor.open(folders.project);
report("read", await editor.prompt(demo, prompts.read));

const session = await editor.open(folders.project);
await editor.set(session, "model", play.model);
editor.until(session, ({ sessionUpdate }) => sessionUpdate === "agent_message_chunk").then(() => report("streaming"));
report("streamed", await editor.prompt(session, prompts.streamed));
const edited = await editor.prompt(session, prompts.allowed);
const file = await readFile(`${folders.project}/notes.txt`, "utf8");
report("allowed", { ...edited, permissions: editor.permissions.splice(0), file });
editor.answer = "reject_once";
report("rejected", { ...(await editor.prompt(session, prompts.rejected)), permissions: editor.permissions.splice(0) });
const picture = { type: "image", data: play.picture, mimeType: "image/png" };
report("picture", await editor.prompt(session, prompts.picture, picture));

await editor.set(demo, "mode", "all");
const started = editor.until(demo, ({ sessionUpdate, data, content }) => {
  const shown = sessionUpdate === "terminal_output_chunk" ? Buffer.from(data, "base64").toString() : JSON.stringify(content ?? "");
  return ["terminal_output_chunk", "tool_call_update", "tool_call_content_chunk"].includes(sessionUpdate) && shown.includes("started");
});
const running = editor.prompt(demo, prompts.cancelled);
await started;
await editor.agent.notify(asks.session.cancel, { sessionId: demo });
report("cancelled", await running);

const pair = await Promise.all([editor.open(folders.left), editor.open(folders.right)]);
for (const sessionId of pair) await editor.set(sessionId, "mode", "all");
const [left, right] = await Promise.all([
  editor.prompt(pair[0], prompts.left),
  editor.prompt(pair[1], prompts.right),
]);
report("left", left);
report("right", right);
report("closed", await editor.close());

const later = new Editor();
await later.initialize();
const where = { sessionId: session, cwd: folders.project, mcpServers: [] };
await later.agent.request(asks.session.resume, { ...where, replayFrom: { type: "start" } });
report("loaded", { updates: later.told.get(session) });
await later.agent.request(asks.session.resume, { ...where, sessionId: demo });
const replayed = (later.told.get(demo) ?? []).map(({ sessionUpdate }) => sessionUpdate);
report("resumed", { ...(await later.prompt(demo, prompts.read)), replayed });
report("ended", await later.close());
