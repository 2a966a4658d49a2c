// An editor on the official TypeScript SDK, of version 1, with files and appended output offered to the agent.
import { readFile, writeFile } from "node:fs/promises";
import { sdk, startAgent } from "./agent.mjs";

const acp = await sdk("@agentclientprotocol/sdk");
export const { agent: asks, client: hears } = acp.methods;

/** An editor with one connection: what it was told, by session, and how it answers questions. */
export class Editor {
  constructor(capabilities = {}) {
    this.capabilities = capabilities;
    this.told = new Map();
    this.permissions = [];
    this.files = [];
    this.answer = "allow_once";
    this.forms = [];
    this.form = { action: "decline" };
    this.watch = () => {};
    this.process = startAgent(acp);
    const app = acp
      .client({ name: "interop" })
      .onNotification(hears.session.update, ({ params }) => this.hear(params))
      .onRequest(hears.session.requestPermission, ({ params }) => this.permit(params))
      .onRequest(hears.elicitation.create, ({ params }) => {
        this.forms.push(params);
        return this.form;
      })
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
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        _meta: { terminal_output: true },
        ...this.capabilities,
      },
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
