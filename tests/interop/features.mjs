// What an editor can use besides turns, with the official TypeScript SDK. features_driver.py has the same scenes.
import { writeFile } from "node:fs/promises";
import { occasion, play, report } from "./agent.mjs";
import { asks, Editor } from "./editor.mjs";

const { prompts } = play;
const folder = play.folders.project;
const editor = new Editor(play.capabilities);
report("introduced", await editor.initialize());

const where = { cwd: folder, mcpServers: [], _meta: play.meta };
const opened = await editor.agent.request(asks.session.new, where);
const { sessionId } = opened;
const load = async () => {
  const shown = editor.told.get(sessionId).length;
  await editor.agent.request(asks.session.load, { sessionId, ...where });
  return editor.told.get(sessionId).slice(shown);
};

const delegated = await editor.prompt(sessionId, prompts.delegated);
const again = await load();
const { sessionId: fork } = await editor.agent.request("session/fork", { sessionId, ...where });
report("delegated", { ...delegated, again, session: sessionId, fork });

const set = async (configId, value) =>
  (await editor.agent.request(asks.session.setConfigOption, { sessionId, configId, value })).configOptions;
await set("model", play.model);
const effort = await set("effort", "high");
report("configured", { first: opened.configOptions, effort, mode: await set("mode", "edits") });
await set("mode", "ask");

for (const scene of ["long", "command", "skill"]) report(scene, await editor.prompt(sessionId, prompts[scene]));

editor.answer = "reject_always";
report("never", { ...(await editor.prompt(sessionId, prompts.never)), permissions: editor.permissions.splice(0) });

await editor.agent.request(asks.session.setMode, { sessionId, modeId: "all" });
const running = occasion();
editor.watch = ({ status }) => status === "in_progress" && running.keep();
const look = editor.prompt(sessionId, prompts.look);
await running.promise;
const french = editor.prompt(sessionId, prompts.french);
await editor.agent.request(asks.session.setMode, { sessionId, modeId: "all" }); // the prompt before it was taken
await writeFile(`${folder}/go`, "");
report("queued", { stops: [(await look).stop, (await french).stop] });
editor.watch = () => {};

report("compact", await editor.prompt(sessionId, prompts.compact));
report("loaded", { updates: await load() });
report("whole", { updates: editor.told.get(sessionId) });
await set("mode", "plan");
report("closed", await editor.close());

// Another day: the agent is started anew.
const later = new Editor(play.capabilities);
await later.initialize();
const { configOptions } = await later.agent.request(asks.session.load, { sessionId, ...where });
report("reloaded", { options: configOptions });
report("ended", await later.close());
