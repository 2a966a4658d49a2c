// The official TypeScript SDK as a client of version 1, with files and appended output offered to the agent.
import { readFile, writeFile } from "node:fs/promises";
import { occasion, play, report, sdk, startAgent } from "./agent.mjs";

const acp = await sdk("@agentclientprotocol/sdk");
const { agent: asks, client: hears } = acp.methods;

/** An editor with one connection: what it was told, by session, and how it answers questions. */
class Editor {
  constructor() {
    this.told = new Map();
    this.permissions = [];
    this.files = [];
    this.answer = "allow_once";
    this.watch = () => {};
    this.process = startAgent(acp);
    const app = acp
      .client({ name: "interop" })
      .onNotification(hears.session.update, ({ params }) => this.hear(params))
      .onRequest(hears.session.requestPermission, ({ params }) => this.permit(params))
      .onRequest(hears.fs.readTextFile, async ({ params }) => {
        this.files.push(["read", params.path]);
        return { content: await readFile(params.path, "utf8") };
      })
      .onRequest(hears.fs.writeTextFile, async ({ params }) => {
        this.files.push(["write", params.path]);
        await writeFile(params.path, params.content);
        return {};
      });
    this.connection = app.connect(this.process.stream);
    this.agent = this.connection.agent;
  }

  hear({ sessionId, update }) {
    this.told.set(sessionId, [...(this.told.get(sessionId) ?? []), update]);
    this.watch(update);
  }

  permit(question) {
    this.permissions.push(question);
    const option = question.options.find(({ kind }) => kind === this.answer);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  }

  initialize() {
    return this.agent.request(asks.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: "interop", version: "1" },
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, _meta: { terminal_output: true } },
    });
  }

  async open(folder) {
    return (await this.agent.request(asks.session.new, { cwd: folder, mcpServers: [] })).sessionId;
  }

  /** A turn: what was told from the prompt to its end, and how it ended. */
  async prompt(sessionId, ...blocks) {
    const before = (this.told.get(sessionId) ?? []).length;
    const prompt = blocks.map((block) => (typeof block === "string" ? { type: "text", text: block } : block));
    const { stopReason } = await this.agent.request(asks.session.prompt, { sessionId, prompt });
    return { stop: stopReason, updates: this.told.get(sessionId).slice(before) };
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
report("read", { ...(await editor.prompt(demo, prompts.read)), files: editor.files });

const delegating = await editor.open(folders.project);
const delegated = await editor.prompt(delegating, prompts.delegated);
const shown = editor.told.get(delegating).length;
const where = { sessionId: delegating, cwd: folders.project, mcpServers: [] };
await editor.agent.request(asks.session.load, where);
const again = editor.told.get(delegating).slice(shown);
const { sessionId: fork } = await editor.agent.request("session/fork", where);
report("delegated", { ...delegated, again, fork });

const session = await editor.open(folders.project);
await editor.agent.request(asks.session.setConfigOption, { sessionId: session, configId: "model", value: play.model });
editor.watch = ({ sessionUpdate }) => {
  if (sessionUpdate !== "agent_message_chunk") return;
  editor.watch = () => {};
  report("streaming");
};
report("streamed", await editor.prompt(session, prompts.streamed));
const edited = await editor.prompt(session, prompts.allowed);
report("allowed", {
  ...edited,
  permissions: editor.permissions.splice(0),
  file: await readFile(`${folders.project}/notes.txt`, "utf8"),
});
editor.answer = "reject_once";
report("rejected", { ...(await editor.prompt(session, prompts.rejected)), permissions: editor.permissions.splice(0) });
const picture = { type: "image", data: play.picture, mimeType: "image/png" };
report("picture", await editor.prompt(session, prompts.picture, picture));

await editor.agent.request(asks.session.setMode, { sessionId: demo, modeId: "all" });
const started = occasion();
editor.watch = (update) => {
  if (/"[^"]*started/.test(JSON.stringify([update.content, update._meta?.terminal_output?.data]))) started.keep();
};
const running = editor.prompt(demo, prompts.cancelled);
await started.promise;
await editor.agent.notify(asks.session.cancel, { sessionId: demo });
report("cancelled", await running);
editor.watch = () => {};

const pair = await Promise.all([editor.open(folders.left), editor.open(folders.right)]);
for (const sessionId of pair) await editor.agent.request(asks.session.setMode, { sessionId, modeId: "all" });
const [left, right] = await Promise.all([
  editor.prompt(pair[0], prompts.left),
  editor.prompt(pair[1], prompts.right),
]);
report("left", left);
report("right", right);
report("closed", await editor.close());

// Another day: the agent is started anew, finds the sessions, loads one and resumes the other.
const later = new Editor();
await later.initialize();
const { sessions } = await later.agent.request(asks.session.list, { cwd: folders.project });
await later.agent.request(asks.session.load, { sessionId: session, cwd: folders.project, mcpServers: [] });
report("loaded", { updates: later.told.get(session), listed: sessions.map(({ sessionId }) => sessionId), session, demo });
const resumed = await later.agent.request(asks.session.resume, { sessionId: demo, cwd: folders.project, mcpServers: [] });
const replayed = (later.told.get(demo) ?? []).map(({ sessionUpdate }) => sessionUpdate);
report("resumed", { ...(await later.prompt(demo, prompts.read)), replayed, modes: resumed.modes });
await later.agent.request(asks.session.close, { sessionId: demo });
const refusal = await later.prompt(demo, "Are you there?").catch(({ code, message }) => ({ code, message }));
report("refused", refusal);
report("ended", await later.close());
