// The scenes that every client plays, with the official TypeScript SDK.
import { readFile } from "node:fs/promises";
import { occasion, play, report } from "./agent.mjs";
import { asks, Editor } from "./editor.mjs";

const { folders, prompts } = play;
const editor = new Editor();
report("introduced", await editor.initialize());

const demo = await editor.open(folders.project);
report("read", { ...(await editor.prompt(demo, prompts.read)), files: editor.files });

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
