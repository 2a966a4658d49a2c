// Questions that wait for a person. Everything that is approved is shown whole.

import { html, useState } from "./vendor/htm/htm-preact.js";
import { get, post } from "./api.js";
import { Choices } from "./choices.js";
import { Diff } from "./diff.js";
import { exactly, isoTime, when } from "./format.js";
import { Code, Link, Markdown } from "./markdown.js";

export function Inbox({ live }) {
  return html`<section class="inbox">
    <h1>Inbox</h1>
    ${live.questions.map((each) => html`<${Question} key=${each.id} question=${each} live=${live} linked />`)}
    ${!live.questions.length && html`<p class="empty">Nothing waits for you.</p>`}
    ${live.settled.length > 0 && html`<h2>Answered</h2><ul class="settled">${live.settled.slice().reverse().map((each) => html`<li key=${each.id}><span class=${`dot ${each.allowed ? "yes" : "no"}`} aria-hidden="true"></span>${each.text} <a href=${`#/session/${each.session}`}>Open</a></li>`)}</ul>`}
  </section>`;
}

export function Question({ question, live, linked }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const answer = async (option, given = {}) => {
    setBusy(true);
    setError("");
    try {
      const { first, question: now } = await post(`questions/${question.id}/answer`, { option: option.id, ...given });
      if (!first) live.say(now ? `It was answered ${now.answered_by} before.` : "The session does not wait any more.");
    } catch (problem) {
      setError(problem.message);
      setBusy(false);
    }
  };
  const isCall = question.kind === "permission";
  const isChoice = question.kind === "choice";
  const isPlan = question.kind === "plan";
  const label = isCall ? `Permission: ${question.title}` : isPlan ? "A plan" : isChoice ? `Question: ${question.title}` : `Question of ${question.server}`;
  return html`<article class="question" aria-label=${label} aria-busy=${busy}>
    <h2>${isPlan ? "Carry out this plan?" : isChoice ? "The model asks" : isCall ? html`<code>${question.command && question.title.length > 120 ? question.tool : question.title}</code>` : `${question.server} asks`}</h2>
    <p class="why">${[question.asker && `for ${question.asker}`, question.reason, question.access === "read" && !question.reason.includes("access") && "access: read"].filter(Boolean).join(" · ")}
      ${linked && html` <a href=${`#/session/${question.session}`}>Open the session</a>`} <time datetime=${isoTime(question.asked)} title=${exactly(question.asked)}>${when(question.asked)}</time></p>
    ${isCall && question.facts.length > 0 && html`<p class="facts">${question.facts.join(" · ")}</p>`}
    ${isPlan ? html`<${Markdown} nodes=${question.nodes} />` : isCall ? html`<${Proposal} question=${question} />` : !isChoice && html`<p class="said">${question.message}</p>`}
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${isChoice ? html`<${Choices} ...${{ question, answer, busy }} />` : isCall || isPlan ? html`<${Permission} ...${{ question, answer, busy }} />` : html`<${Form} ...${{ question, answer, busy }} />`}
  </article>`;
}

function Proposal({ question }) {
  const [whole, setWhole] = useState(null);
  const [error, setError] = useState("");
  const shown = whole || question;
  const name = shown.command ? "command" : shown.diff ? "diff" : "input";
  const cut = shown.cut[name] || 0;
  const more = () => get(`questions/${question.id}`, { form: "view" }).then(setWhole, (problem) => setError(problem.message));
  return html`${shown[name] !== "{}" && (name === "diff" ? html`<${Diff} text=${shown.diff} cut=${cut} />` : html`<${Code} text=${shown[name]} language=${name === "command" ? "bash" : "json"} />`)}
    ${cut > 0 && html`<p class="cut" role="note">${cut.toLocaleString("en")} more characters are not shown here. <button type="button" onClick=${more}>Show all</button> ${error}</p>`}`;
}

function Permission({ question, answer, busy }) {
  const [words, setWords] = useState("");
  const isPlan = question.kind === "plan";
  const label = (option) => (!isPlan && { once: "Allow", no: "Deny" }[option.id]) || option.label;
  const allowing = question.options.filter((each) => each.allows);
  const denying = question.options.filter((each) => !each.allows);
  const deny = (option) => answer(option, option.words && words.trim() ? { words: words.trim() } : {});
  return html`<form class="answers" onSubmit=${(event) => { event.preventDefault(); deny(denying[0]); }}>
    ${allowing.map((each) => html`<button type="button" class=${each === allowing[0] ? "main" : ""} disabled=${busy} onClick=${() => answer(each)}>${label(each)}</button>`)}
    ${denying.map((each) => html`<button type="button" class=${each.words && isPlan ? "" : "danger"} disabled=${busy} onClick=${() => deny(each)}>${label(each)}</button>`)}
    ${denying.some((each) => each.words) && html`<input aria-label=${isPlan ? "What to change" : "Reason for the model"} placeholder=${isPlan ? "What to change in the plan" : "A reason for the model, if you deny"} value=${words} onInput=${(event) => setWords(event.target.value)} />`}
  </form>`;
}

/** A form of an MCP server: the few kinds of fields that its schema may have. */
function Form({ question, answer, busy }) {
  const fields = Object.entries(question.schema?.properties || {});
  const required = new Set(question.schema?.required || []);
  const [values, setValues] = useState(() => Object.fromEntries(fields.map(([name, field]) => [name, field?.default ?? (field?.type === "boolean" ? false : field?.type === "array" ? [] : "")])));
  const set = (name, value) => setValues((now) => ({ ...now, [name]: value }));
  const content = () => {
    const given = {};
    for (const [name, field] of fields) {
      const value = values[name];
      if (value === "" && !required.has(name)) continue;
      given[name] = field.type === "integer" || field.type === "number" ? (value === "" ? null : Number(value)) : value;
    }
    return given;
  };
  const accept = question.options.find((each) => each.allows);
  const others = question.options.filter((each) => !each.allows);
  const submit = (event) => {
    event.preventDefault();
    if (accept) answer(accept, question.schema ? { content: content() } : {});
  };
  return html`<form onSubmit=${submit}>
    ${question.address && html`<p>The page to open: <${Link} address=${question.url}>${question.address}<//></p>`}
    ${fields.map(([name, field]) => html`<${Field} key=${name} ...${{ name, field: field || {}, shown: question.labels[name] || { label: "", description: "", options: [] }, value: values[name], required: required.has(name), set }} />`)}
    <div class="answers">${accept && html`<button class="main" disabled=${busy}>${accept.label}</button>`}
      ${others.map((each) => html`<button type="button" disabled=${busy} onClick=${() => answer(each)}>${each.label}</button>`)}</div>
  </form>`;
}

function Field({ name, field, shown, value, required, set }) {
  const label = shown.label;
  const hint = shown.description && html`<small class="muted">${shown.description}</small>`;
  const choices = field.enum || field.oneOf?.map((each) => each.const);
  if (field.type === "boolean") {
    return html`<label><input type="checkbox" checked=${value} onChange=${(event) => set(name, event.target.checked)} /> ${label} ${hint}</label>`;
  }
  if (field.type === "array") {
    const items = field.items?.enum || field.items?.anyOf?.map((each) => each.const) || [];
    const toggle = (item) => set(name, value.includes(item) ? value.filter((each) => each !== item) : [...value, item]);
    return html`<fieldset><legend>${label}</legend>${hint}${items.slice(0, shown.options.length).map((item, index) => html`<label><input type="checkbox" checked=${value.includes(item)} onChange=${() => toggle(item)} /> ${shown.options[index]}</label>`)}</fieldset>`;
  }
  if (choices) {
    return html`<label>${label} ${hint}<br /><select required=${required} value=${value} onChange=${(event) => set(name, event.target.value)}><option value="">…</option>${choices.slice(0, shown.options.length).map((each, index) => html`<option value=${each} selected=${each === value}>${shown.options[index]}</option>`)}</select></label>`;
  }
  const type = field.type === "integer" || field.type === "number" ? "number" : field.format === "email" ? "email" : field.format === "date" ? "date" : "text";
  return html`<label>${label} ${hint}<br /><input type=${type} step=${field.type === "number" ? "any" : null} required=${required} value=${value} onInput=${(event) => set(name, event.target.value)} /></label>`;
}
