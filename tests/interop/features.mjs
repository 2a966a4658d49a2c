// What an editor can use besides turns, with the official TypeScript SDK.
import { writeFile } from "node:fs/promises";
import { occasion, play, report } from "./agent.mjs";
import { asks, Editor } from "./editor.mjs";

const editor = new Editor({ session: { compaction: {} }, auth: { terminal: true } });
const folder = play.folders.project;
report("introduced", await editor.initialize());

const where = { cwd: folder, mcpServers: [], _meta: { systemPrompt: "Speak like a pirate." } };
const opened = await editor.agent.request(asks.session.new, where);
const { sessionId } = opened;
const set = async (configId, value) =>
  (await editor.agent.request(asks.session.setConfigOption, { sessionId, configId, value })).configOptions;
report("configured", {
  first: opened.configOptions,
  model: await set("model", play.model),
  effort: await set("effort", "high"),
  mode: await set("mode", "edits"),
  again: await set("mode", "ask"),
});

report("first", await editor.prompt(sessionId, "Say something."));
report("custom", await editor.prompt(sessionId, "/greet Ada"));
report("skill", await editor.prompt(sessionId, "/tidy the shelf"));

editor.answer = "reject_always";
report("never", { ...(await editor.prompt(sessionId, "Write it twice.")), permissions: editor.permissions.splice(0) });

await editor.agent.request(asks.session.setMode, { sessionId, modeId: "all" });
const running = occasion();
editor.watch = ({ status }) => status === "in_progress" && running.keep();
const look = editor.prompt(sessionId, "Look.");
await running.promise;
const french = editor.prompt(sessionId, "Answer in French.");
await editor.agent.request(asks.session.setMode, { sessionId, modeId: "all" }); // the prompt before it was taken
await writeFile(`${folder}/go`, "");
report("queued", { stops: [(await look).stop, (await french).stop] });
editor.watch = () => {};

report("compacted", await editor.prompt(sessionId, "/compact the colours"));

const shown = editor.told.get(sessionId).length;
await editor.agent.request(asks.session.load, { sessionId, ...where });
report("loaded", { updates: editor.told.get(sessionId).slice(shown) });
const { sessionId: fork } = await editor.agent.request("session/fork", { sessionId, ...where });
report("forked", { session: sessionId, fork, updates: editor.told.get(sessionId) });
report("closed", await editor.close());
