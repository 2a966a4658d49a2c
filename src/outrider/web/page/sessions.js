// The list of sessions: search, filters, pages.

import { html, useEffect, useRef, useState } from "./vendor/htm/htm-preact.js";
import { get, post } from "./api.js";
import { goalIn } from "./composer.js";
import { counted, dollars, exactly, isoTime, lastPart, shortModel, thousands, when } from "./format.js";

const DAY = 86400;
const PERIODS = [["", "Any time"], ["1", "Last day"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["365", "Last year"]];
const COSTS = [["", "Any cost"], ["0.01", "1 ¢ or more"], ["0.1", "10 ¢ or more"], ["1", "$1 or more"], ["10", "$10 or more"]];

export function Sessions({ live, query, go }) {
  const [words, setWords] = useState(query.search || "");
  const [shown, setShown] = useState({ sessions: null, more: false });
  const [facets, setFacets] = useState({ folders: [], models: [] });
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const asked = JSON.stringify(query);
  const latest = useRef(asked);
  latest.current = asked;

  useEffect(() => void get("facets").then(setFacets, () => {}), []);
  useEffect(() => setWords(query.search || ""), [query.search]);
  useEffect(() => {
    const timer = setTimeout(() => words !== (query.search || "") && go({ ...query, search: words }, true), 200);
    return () => clearTimeout(timer);
  }, [words]);

  const load = async (offset, signal) => {
    const { days, every, ...given } = query;
    if (!every) given.chats = true;
    if (days) given.since = Math.floor(Date.now() / 1000 - days * DAY);
    return get("sessions", { ...given, offset }, signal);
  };
  useEffect(() => {
    const stop = new AbortController();
    setBusy(true);
    load(0, stop.signal).then(
      (found) => { setShown(found); setError(""); setBusy(false); },
      (problem) => problem.name !== "AbortError" && (setError(problem.message), setBusy(false)),
    );
    return () => stop.abort();
  }, [asked]);
  useEffect(() => {
    if (!live.changed.length) return;
    setShown((now) => (now.sessions ? { ...now, sessions: updated(now, live.changed, query) } : now));
  }, [live.changed]);
  const more = async () => {
    const found = await load(shown.sessions.length);
    if (latest.current !== asked) return;
    const known = new Set(shown.sessions.map((each) => each.id));
    setShown({ ...found, sessions: [...shown.sessions, ...found.sessions.filter((each) => !known.has(each.id))] });
  };
  const set = (name) => (event) => go({ ...query, [name]: event.target.value });
  const choice = (name, label, options) => html`<label><span class="hidden">${label}</span>
    <select value=${query[name] || ""} onChange=${set(name)}>${options.map(([value, text]) => html`<option value=${value} selected=${(query[name] || "") === value}>${text}</option>`)}</select></label>`;

  return html`<section class="sessions" aria-busy=${busy}>
    <h1>Sessions</h1>
    ${facets.folders.length > 0 && html`<${NewSession} folders=${facets.folders} chosen=${query.folder} />`}
    <form role="search" onSubmit=${(event) => { event.preventDefault(); go({ ...query, search: words }); }}>
      <input id="search" type="search" role="searchbox" aria-label="Search sessions" placeholder="Search everything that was said" value=${words}
        onInput=${(event) => setWords(event.target.value)} autocomplete="off" spellcheck=${false} />
      <div class="filters">
        ${choice("folder", "Folder", [["", "All folders"], ...facets.folders.map((each) => [each, lastPart(each)])])}
        ${choice("model", "Model", [["", "All models"], ...facets.models.map((each) => [each, shortModel(each)])])}
        ${choice("days", "Time", PERIODS)}
        ${choice("min_cost", "Cost", COSTS)}
        <label class="switch" title="Also sessions of -p, batches and programs, and those without an answer">
          <input type="checkbox" checked=${Boolean(query.every)} onChange=${(event) => go({ ...query, every: event.target.checked ? "true" : "" })} /> All kinds</label>
      </div>
    </form>
    ${error && html`<p role="alert" class="error">${error}</p>`}
    <p class="hidden" role="status">${shown.sessions && !busy ? counted(shown.sessions.length, "session") : ""}</p>
    ${shown.sessions && !shown.sessions.length && html`<p class="empty">${query.search ? "Nothing was found." : query.every ? "There are no sessions here yet." : "There are no chats here yet."}
      ${!query.every && html` <button type="button" onClick=${() => go({ ...query, every: "true" })}>Look in all kinds of sessions</button>`}</p>`}
    <ul class="rows">${(shown.sessions || []).map((each) => html`<${Row} key=${each.id} session=${each} waiting=${live.questions.some((one) => one.session === each.id)} />`)}</ul>
    ${shown.more && html`<button type="button" class="more" onClick=${more}>More sessions</button>`}
    ${shown.full && html`<p class="muted">These are the newest matches. Add a word to find older ones.</p>`}
  </section>`;
}

/** Begin a session in a folder that had one before, with the model and the permissions of a chat there. */
function NewSession({ folders, chosen }) {
  const [open, setOpen] = useState(false);
  const [folder, setFolder] = useState("");
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const now = folder || chosen || folders[0];
  const begin = async (event) => {
    event.preventDefault();
    const goal = goalIn(text);
    if (goal === "" || goal === "off") return setError("Write the command after /goal, as in /goal pytest -q.");
    setBusy(true);
    setError("");
    try {
      const { id } = await post("sessions", { folder: now, text: goal ? "" : text });
      if (goal) await post(`sessions/${id}/goal`, { command: goal });
      location.hash = `#/session/${id}`;
    } catch (problem) {
      setError(problem.message);
      setBusy(false);
    }
  };
  return html`<div class="new-session">
    <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>New session</button>
    ${open && html`<form onSubmit=${begin}>
      <label>Folder<br /><select onChange=${(event) => setFolder(event.target.value)}>${folders.map((each) => html`<option value=${each} selected=${each === now}>${each}</option>`)}</select></label>
      <label>First message<br /><textarea rows="3" required value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <button class="main" disabled=${!text.trim() || busy}>Start</button>
      ${error && html`<p role="alert" class="error">${error}</p>`}
    </form>`}
  </div>`;
}

/** Return the list with what has changed. New sessions join a list without filters, each before those of its kind of folder. */
function updated({ sessions, folders }, changed, query) {
  const byId = new Map(changed.map((each) => [each.id, each]));
  const known = new Set(sessions.map((each) => each.id));
  const isWholeList = Object.keys(query).every((name) => name === "every" || !query[name]);
  const isChat = (each) => ["", "chat", "editor"].includes(each.origin) && (each.turns > 0 || each.open);
  const added = isWholeList ? changed.filter((each) => !known.has(each.id) && !each.parent && each.title && (query.every || isChat(each))) : [];
  const all = [...added, ...sessions.map((each) => (byId.has(each.id) ? { ...each, ...byId.get(each.id) } : each))];
  const isHere = (each) => (folders || []).some((folder) => `${each.folder}/`.startsWith(`${folder.replace(/\/$/, "")}/`));
  return isWholeList ? [...all.filter(isHere), ...all.filter((each) => !isHere(each))] : all;
}

function Row({ session, waiting }) {
  const usage = session.usage;
  return html`<li class="row">
    <a class="row-main" href=${`#/session/${session.id}`}>
      <span class="row-title">${waiting ? html`<span class="badge ask">asks</span>` : session.open ? html`<span class="badge live">open</span>` : null}${session.title || "(no title)"}</span>
      <span class="row-facts">
        ${session.folder && html`<span title=${session.folder}>${lastPart(session.folder)}</span>`}
        ${session.model && html`<span title=${session.model}>${shortModel(session.model)}</span>`}
        ${session.origin && session.origin !== "chat" && html`<span>${session.origin === "print" ? "-p" : session.origin}</span>`}
        <span>${counted(session.turns, "turn")}</span>
        <span>${thousands(usage.input_tokens + usage.output_tokens)} tokens</span>
        ${usage.cost != null && html`<span>${dollars(usage.cost)}</span>`}
      </span>
      <time class="row-when" datetime=${isoTime(session.updated)} title=${exactly(session.updated)}>${when(session.updated)}</time>
    </a>
    ${session.found && html`<ul class="found">${session.found.slice(0, 4).map((each) => html`<li><a href=${`#/session/${session.id}?at=${each.seq}`}>
      <span class="muted">${each.tool ? `${each.tool}${each.kind === "result" ? " result" : ""}` : each.kind === "user" ? "you" : "model"}</span> ${each.snippet}</a></li>`)}</ul>`}
  </li>`;
}
