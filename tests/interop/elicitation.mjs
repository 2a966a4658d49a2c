// Questions of an MCP server, as forms of an editor on the official TypeScript SDK.
import { occasion, play, report } from "./agent.mjs";
import { asks, Editor } from "./editor.mjs";

const editor = new Editor({ elicitation: { form: {}, url: {} } });
await editor.initialize();
const started = occasion();
editor.watch = ({ availableCommands = [] }) => availableCommands.some(({ name }) => name.includes("greet")) && started.keep();
const where = { cwd: play.folders.project, mcpServers: [JSON.parse(process.env.INTEROP_SERVER)] };
const { sessionId } = await editor.agent.request(asks.session.new, where);
await started.promise; // the prompts of the server are announced when it runs

const ask = async (scene, answer) => {
  editor.form = answer;
  report(scene, { ...(await editor.prompt(sessionId, "Ask me.")), forms: editor.forms.splice(0) });
};
await ask("accepted", { action: "accept", content: { name: "Ada", age: 36 } });
await ask("declined", { action: "decline" });
await ask("cancelled", { action: "cancel" });
report("closed", await editor.close());
