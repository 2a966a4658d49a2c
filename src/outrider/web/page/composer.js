// Talk to a session: begin a turn, steer the one that goes on, or stop it.

import { html, useState } from "./vendor/htm/htm-preact.js";
import { post } from "./api.js";
import { Markdown } from "./markdown.js";

/** The argument of `/goal`; null for any other message. */
export function goalIn(text) {
  return /^\/goal(?=\s|$)/.test(text.trim()) ? text.trim().slice("/goal".length).trim() : null;
}

async function setGoal(id, command, live, read) {
  await post(`sessions/${id}/goal`, { command });
  live.say(command ? "The goal is set." : "The goal has ended.");
  read();
}

export function Composer({ id, head, working, live, read }) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [hint, setHint] = useState("");
  if (!head || head.parent) return null;
  const canTalk = !head.open || head.listening;
  const send = async (event) => {
    event?.preventDefault();
    const sent = text;
    if (!sent.trim()) return;
    setText(""); // at once: what is typed from now on is the next message
    setError("");
    setHint("");
    const goal = goalIn(sent);
    try {
      if (goal === null) {
        await post(`sessions/${id}/prompt`, { text: sent });
        live.say(working ? "Sent. The session takes it at its next step." : "Sent.");
      } else if (goal) {
        await setGoal(id, goal === "off" ? "" : goal, live, read);
      }
      if (goal === "" && head.goal) setHint(`Goal: ${head.goal}. The session works until it succeeds; /goal off ends it.`);
      else if (goal === "" || goal === "off") setHint("There is no goal. /goal COMMAND sets one: the session works until the command succeeds.");
    } catch (problem) {
      setError(problem.message);
      setText((typed) => typed || sent);
    }
  };
  const stop = () => post(`sessions/${id}/cancel`).then(() => live.say("Stopping."), (problem) => setError(problem.message));
  const onKey = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(hover: hover)").matches) send(event);
  };
  return html`<div class="composer">
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${hint && html`<p role="status" class="hint">${hint}</p>`}
    ${canTalk ? html`<form onSubmit=${send}>
      <textarea rows="1" aria-label="Message" placeholder=${working ? "Steer: the session takes it at its next step" : "Message"} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey}></textarea>
      ${working && html`<button type="button" class="danger" onClick=${stop}>Stop</button>`}
      <button class="main" disabled=${!text.trim()}>${working ? "Steer" : "Send"}</button>
    </form>` : html`<p class="hint">This session is open in ${head.program}, which takes no messages from here.</p>`}
  </div>`;
}

/** The command that must succeed before a run is done: shown with its newest check, set and ended. */
export function Goal({ id, head, live, read }) {
  const [asking, setAsking] = useState(false);
  const [command, setCommand] = useState("");
  const [error, setError] = useState("");
  if (!head || head.parent || (head.open && !head.listening)) return null;
  const set = async (wanted) => {
    setError("");
    try {
      await setGoal(id, wanted, live, read);
      setAsking(false);
      setCommand("");
    } catch (problem) {
      setError(problem.message);
    }
  };
  const problem = error && html`<p role="alert" class="error">${error}</p>`;
  if (head.goal) return html`<div class="goal" role="group" aria-label="Goal">${problem}
    Goal: <code>${head.goal}</code> <span class="muted">${head.check ? `not reached: ${head.check.last_line || "it failed"}` : "not checked yet"}</span>
    <button type="button" class="quiet small" onClick=${() => set("")}>End the goal</button>
  </div>`;
  if (!asking) return html`<div class="goal"><button type="button" class="quiet small" onClick=${() => setAsking(true)}>Set a goal</button></div>`;
  return html`<form class="goal" onSubmit=${(event) => { event.preventDefault(); set(command); }}>${problem}
    <input aria-label="Goal: a command that succeeds once it is reached" placeholder="A command that must succeed, such as pytest -q" value=${command} onInput=${(event) => setCommand(event.target.value)} autofocus />
    <button class="main small" disabled=${!command.trim()}>Work until it succeeds</button>
    <button type="button" class="quiet small" onClick=${() => setAsking(false)}>Cancel</button>
  </form>`;
}

/** The sub-agents in the background. Those of a session that no program has open do not work any more. */
export function Background({ id, head, tasks, live }) {
  if (!tasks.length) return null;
  const stop = (task) => post(`sessions/${task.session}/cancel`).then(() => live.say("Stopping."), (problem) => live.say(problem.message));
  return html`<ul class="background" aria-label="Sub-agents in the background">
    ${tasks.map((task) => html`<li key=${task.session}>
      <a href=${`#/session/${task.session}`}>${task.title}</a> <span>${task.status ? task.status.replace("_", " ") : head?.open ? "at work" : "interrupted"}</span>${task.note && html` <span class="muted">${task.note}</span>`}
      ${!task.status && head?.listening && html` <button type="button" class="quiet small" onClick=${() => stop(task)}>Stop</button>`}
    </li>`)}
  </ul>`;
}

/** The reply while it grows. */
export function Draft({ draft, working }) {
  const empty = !draft.nodes.length && !draft.thinking && !draft.prepared.length;
  if (!working && empty) return null;
  return html`<div class="draft" aria-busy="true">
    ${draft.thinking && html`<details class="thinking"><summary>Thinking…</summary><div class="said">${draft.thinking}</div></details>`}
    ${draft.nodes.length > 0 && html`<article class="message" aria-label="Model, writing"><${Markdown} nodes=${draft.nodes} /></article>`}
    <p class="state"><span class="dot" aria-hidden="true"></span>${draft.notice || (draft.prepared.length ? `Preparing ${draft.prepared.join(", ")}…` : draft.nodes.length ? "Writing…" : "Working…")}</p>
  </div>`;
}
