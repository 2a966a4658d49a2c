// The entries of a session: messages, calls with their results, and the notes between them.

import { html, useState } from "./vendor/htm/htm-preact.js";
import { address, get } from "./api.js";
import { Diff } from "./diff.js";
import { at, counted, dollars, exactly, isoTime, shortModel, shownId, size, thousands } from "./format.js";
import { Code, Link, Markdown } from "./markdown.js";

const SHOWN_LINES = 14;

/** Put each result with its call. Results whose calls are on another page stand alone. */
export function grouped(entries) {
  const calls = new Map();
  for (const entry of entries) {
    for (const block of entry.blocks || []) if (block.type === "call") calls.set(block.id, { block });
  }
  const items = [];
  const tasks = new Map();
  for (const entry of entries) {
    const call = calls.get(entry.call_id);
    if (entry.kind === "tool_started") {
      if (call) call.started = entry;
    } else if (entry.kind === "subagent") {
      if (call) call.subagent = entry.session;
      else items.push({ entry });
    } else if (entry.kind === "background") {
      tasks.set(entry.session, entry);
    } else if (entry.kind === "tool_finished") {
      if (call) call.result = entry;
      else items.push({ entry });
    } else {
      for (const block of entry.blocks || []) {
        const owner = block.type === "result" && calls.get(block.call_id);
        if (owner) owner.result = { ...block, seq: entry.seq };
      }
      items.push({ entry });
    }
  }
  return { items, calls, tasks: [...tasks.values()] };
}

export function Item({ entry, calls, session, actions, drafts }) {
  if (entry.kind === "message") return html`<${Message} ...${{ entry, calls, session, actions, drafts }} />`;
  if (entry.kind === "tool_finished") {
    const block = { type: "call", name: "Result", title: `Result of ${entry.call_id}` };
    return html`<${Call} call=${{ block, result: entry }} session=${session} />`;
  }
  return html`<${Note} entry=${entry} />`;
}

function Message({ entry, calls, session, actions, drafts }) {
  const own = entry.blocks.filter((block) => block.type !== "result" || !calls.get(block.call_id));
  if (entry.interrupted) return html`<p class="note">The run was interrupted.</p>`;
  if (!own.length) return null;
  if (entry.check) {
    return html`<details class="note"><summary>What the model read about the failed check</summary>${own.map((block) => html`<${Block} ...${{ block, calls, session, entry, drafts }} />`)}</details>`;
  }
  if (entry.report) {
    return html`<details class="note"><summary>${entry.report}</summary>${own.map((block) => html`<${Block} ...${{ block, calls, session, entry, drafts }} />`)}</details>`;
  }
  const mine = entry.role === "user";
  return html`<article class=${mine ? "message mine" : "message"} aria-label=${mine ? "You" : "Model"}>
    ${own.map((block) => html`<${Block} ...${{ block, calls, session, entry, drafts }} />`)}
    <footer class="below">
      <time datetime=${isoTime(entry.time)} title=${exactly(entry.time)}>${at(entry.time)}</time>
      ${entry.model && html`<span>${shortModel(entry.model)}</span>`}
      ${entry.usage && html`<span title=${usageTitle(entry.usage)}>${thousands(entry.usage.input_tokens)} → ${thousands(entry.usage.output_tokens)} tokens</span>`}
      ${entry.usage?.cost != null && html`<span>${dollars(entry.usage.cost)}</span>`}
      ${["max_tokens", "refusal", "content_filter"].includes(entry.stop_reason) && html`<span class="warn">${entry.stop_reason.replace("_", " ")}</span>`}
      ${actions && html`<${Actions} ...${{ entry, actions }} />`}
    </footer>
  </article>`;
}

const usageTitle = (usage) => `${counted(usage.input_tokens, "token")} in, ${usage.cached_tokens.toLocaleString("en")} of them cached; ${counted(usage.output_tokens, "token")} out`;

function Actions({ entry, actions }) {
  return html`<span class="actions">
    ${entry.role === "assistant" && html`<button type="button" class="quiet small" onClick=${() => actions.wire(entry.seq)}>Request</button>`}
    <button type="button" class="quiet small" onClick=${() => actions.fork(entry.seq)}>Fork from here</button>
  </span>`;
}

export function Block({ block, calls, session, entry, drafts }) {
  switch (block.type) {
    case "markdown":
      return html`<${Markdown} nodes=${block.nodes} />${block.sources && html`<${Sources} sources=${block.sources} />`}`;
    case "text":
      return html`<${Long} ...${{ value: block, session, seq: entry?.seq, pick: pickText(block) }} class="said" />`;
    case "thinking":
      return html`<details class="thinking"><summary>Thinking</summary><div class="said">${block.text}</div></details>`;
    case "call":
      return html`<${Call} call=${calls.get(block.id) || { block }} session=${session} seq=${entry?.seq} draft=${drafts?.get(block.id)} />`;
    case "file":
      return html`<${File} file=${block} session=${session} />`;
    case "result":
      return html`<${Call} call=${{ block: { type: "call", name: "Result", title: "Result" }, result: block }} session=${session} />`;
  }
  return null;
}

const pickText = (block) => (whole) => whole.blocks?.find((each) => each.type === block.type && each.text.startsWith(block.text.slice(0, 200)));

function Sources({ sources }) {
  return html`<ol class="sources" aria-label="Sources">${sources.map((each) => html`<li><${Link} address=${each.url}>${each.label || each.url}<//></li>`)}</ol>`;
}

/** A text that may have been shortened. Its rest is read when someone asks for it. */
function Long({ value, session, seq, pick, ...given }) {
  const [whole, setWhole] = useState(null);
  const shown = whole || value;
  const read = async () => setWhole(pick(await get(`sessions/${session}/entries/${seq}`, { form: "view" })) || value);
  const Tag = given.pre ? "pre" : "div";
  return html`<${Tag} class=${given.class} tabindex=${given.pre ? 0 : null} role=${given.pre ? "region" : null} aria-label=${given.pre ? given.label || "Output" : null}>${shown.text}<//>
    ${shown.cut && !whole && html`<button type="button" class="quiet small" onClick=${read}>Show ${thousands(shown.cut)} more characters</button>`}`;
}

export function Call({ call, session, seq, draft }) {
  const { block, result, started, subagent } = call;
  const state = result ? result.outcome : started || draft ? "running" : "waiting";
  const diff = result?.diff || (!result && block.diff) || (result?.outcome === "done" && block.diff);
  const isOpen = state === "failed" || state === "unknown" || Boolean(diff) || Boolean(result?.files?.length) || (!result && Boolean(draft?.output)) || Boolean(result?.todos) || Boolean(result && (block.nodes || block.name === "AskUser"));
  const [open, setOpen] = useState(null);
  const shown = open ?? isOpen;
  return html`<details class=${`call ${state}`} open=${shown}>
    <summary onClick=${(event) => { event.preventDefault(); setOpen(!shown); }}><span class="dot" aria-hidden="true"></span><code class="title">${block.title}</code>
      <span class="gist">${gist(state, result)}</span></summary>
    ${shown && html`<div class="call-body">
      ${block.name === "Bash" && block.command && block.command.text.length > 60 && html`<${Code} text=${block.command.text} language="bash" />`}
      ${block.nodes && html`<${Markdown} nodes=${block.nodes} />`}
      ${diff && html`<${Diff} text=${diff.text} cut=${diff.cut} />`}
      ${!diff && !block.nodes && !["AskUser", "Bash"].includes(block.name) && block.input?.text && block.input.text !== "{}" && html`<details class="input"><summary>Arguments</summary><pre tabindex="0" role="region" aria-label="Arguments">${block.input.text}</pre></details>`}
      ${subagent && html`<p><a href=${`#/session/${subagent}`}>Open the sub-agent’s session</a></p>`}
      ${result?.todos && !block.nodes && html`<${Todos} todos=${result.todos} />`}
      ${result && !result.todos && result.text && !(diff && result.outcome === "done") && html`<${Output} result=${result} session=${session} />`}
      ${!result && draft?.output && html`<pre class="output" tabindex="0" role="region" aria-label="Output so far">${lastLines(draft.output)}</pre>`}
      ${result?.files?.map((file) => html`<${File} file=${file} session=${session} />`)}
      ${result?.whole && html`<p class="below"><a href=${fileAddress(session, result.whole, true)}>The whole output, ${size(result.whole.size)}</a></p>`}
    </div>`}
  </details>`;
}

function gist(state, result) {
  if (!result) return state === "running" ? "running…" : "";
  const parts = [];
  if (result.added || result.removed) parts.push(`+${result.added || 0} −${result.removed || 0}`);
  if (result.exit_code != null) parts.push(`exit ${result.exit_code}`);
  if (result.seconds >= 0.1) parts.push(`${result.seconds.toFixed(1)} s`);
  const remark = { failed: "failed", unknown: "outcome unknown" }[state];
  return (remark ? [remark, ...parts] : parts).join(" · ");
}

const lastLines = (text) => text.split("\n").slice(-40).join("\n");

function Output({ result, session }) {
  const lines = result.text.split("\n");
  const [all, setAll] = useState(lines.length <= SHOWN_LINES + 3);
  if (!all) {
    return html`<pre class="output" tabindex="0" role="region" aria-label="Output">${lines.slice(0, SHOWN_LINES).join("\n")}</pre>
      <button type="button" class="quiet small" onClick=${() => setAll(true)}>Show ${counted(lines.length - SHOWN_LINES, "more line")}</button>`;
  }
  return html`<${Long} value=${result} session=${session} seq=${result.seq} pick=${(whole) => whole} pre class="output" />`;
}

const MARKS = { completed: "✓", in_progress: "●", pending: "○" };

function Todos({ todos }) {
  return html`<ul class="todos">${todos.map((each) => html`<li class=${each.status}><span aria-hidden="true">${MARKS[each.status] || "○"}</span> ${each.content}<span class="hidden"> (${each.status?.replace("_", " ")})</span></li>`)}</ul>`;
}

export function fileAddress(session, file, download) {
  return address(`sessions/${session}/files/${file.sha256}`, download ? { name: file.name || "file" } : { type: file.mime_type });
}

function File({ file, session }) {
  const label = file.description || file.name;
  return html`<figure class="file">
    ${file.shown === "picture" && html`<a href=${fileAddress(session, file)} target="_blank" rel="noopener"><img src=${fileAddress(session, file)} alt=${label} loading="lazy" /></a>`}
    ${file.shown === "pdf" && html`<${Pdf} file=${file} session=${session} />`}
    <figcaption><a href=${fileAddress(session, file, true)} download=${file.name}>${file.name}</a> <span class="muted">${file.mime_type}, ${size(file.size)}</span></figcaption>
  </figure>`;
}

function Pdf({ file, session }) {
  const [page, setPage] = useState(1);
  const [failed, setFailed] = useState(false);
  if (failed && page === 1) return html`<p class="muted">This PDF cannot be shown.</p>`;
  const source = address(`sessions/${session}/files/${file.sha256}/pages/${page}`);
  return html`<img class="pdf" src=${source} alt=${`Page ${page} of ${file.name}`} onError=${() => (page > 1 ? setPage(page - 1) : setFailed(true))} />
    <div class="pages"><button type="button" class="quiet small" disabled=${page === 1} onClick=${() => setPage(page - 1)}>Previous page</button>
      <span>Page ${page}</span>
      <button type="button" class="quiet small" onClick=${() => setPage(page + 1)}>Next page</button></div>`;
}

function Note({ entry }) {
  if (entry.kind === "compacted") {
    return html`<details class="note compaction"><summary>Compacted: ${thousands(entry.tokens_before)} → ${thousands(entry.tokens_after)} tokens</summary><${Markdown} nodes=${entry.nodes} /></details>`;
  }
  const text = noteText(entry);
  return text && html`<p class="note">${text} <time datetime=${isoTime(entry.time)} title=${exactly(entry.time)}>${at(entry.time)}</time></p>`;
}

function noteText(entry) {
  switch (entry.kind) {
    case "began":
      return entry.forked_from ? html`A copy of <a href=${`#/session/${entry.forked_from}`}>${shownId(entry.forked_from)}</a> up to entry ${entry.at}` : "";
    case "attempt_failed":
      return entry.delay == null ? `Failed: ${entry.reason}` : `${entry.reason}; retried after ${entry.delay.toFixed(1)} s`;
    case "results_cleared":
      return `${counted(entry.count, "old result")} cleared, ${thousands(entry.tokens)} tokens`;
    case "rewound":
      return entry.undo ? "The rewind was taken back" : `Went back to message ${entry.to}${entry.files ? ", with its files" : ""}`;
    case "cancelled":
      return "Stopped";
    case "run_stopped":
      if (entry.status === "done") return "";
      return entry.status === "cancelled" ? "Stopped" : `Ended (${entry.status})${entry.error ? `: ${entry.error}` : ""}`;
    case "settings":
      if (entry.text) return entry.text;
      return ["model", "folder", "effort", "goal"].filter((name) => entry[name]).map((name) => `${name}: ${entry[name]}`).join(" · ");
    case "goal_checked":
      return entry.passed ? html`✓ Goal reached: <code>${entry.command}</code>` : html`✗ Goal not reached: <code>${entry.command}</code>${entry.last_line ? `: ${entry.last_line}` : ""}`;
    case "subagent":
      return html`<a href=${`#/session/${entry.session}`}>A sub-agent started</a>`;
    case "recovered":
      return "Entries before this one were lost and could not be recovered";
    case "steering_queued":
      return html`Queued: “${(entry.blocks[0]?.text || "").slice(0, 200)}”`;
    case "steering_withdrawn":
      return "The queued message was taken back";
    default:
      return entry.name ? `${entry.name} (of a newer version)` : "";
  }
}
