// What the drivers in JavaScript share: the SDK from the folder of clients, the agent's process, and the report.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

export const play = JSON.parse(process.argv[2]);

/** A module of the SDK, installed elsewhere. */
export function sdk(entrypoint) {
  const require = createRequire(join(process.env.INTEROP_CLIENTS, "package.json"));
  return import(pathToFileURL(require.resolve(entrypoint)).href);
}

/** One line for each scene. */
export function report(scene, what) {
  process.stdout.write(`${JSON.stringify({ scene, ...what })}\n`);
}

/** The agent as an editor starts it: its streams, and its end when the editor closes them. */
export function startAgent(acp) {
  const [command, ...args] = play.agent;
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  return { stream, ended, close: () => child.stdin.end() };
}

/** A promise that is kept when somebody says so. */
export function occasion() {
  let keep;
  const promise = new Promise((resolve) => (keep = resolve));
  return { promise, keep };
}
