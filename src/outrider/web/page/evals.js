// Evals: which share of their tasks models solve, how sure that is, what it costs, and each trial.

import { html, useEffect, useState } from "./vendor/htm/htm-preact.js";
import { get } from "./api.js";
import { counted, dollars, percent, seconds, shortModel, thousands, when } from "./format.js";

export function Evals({ name, query, go }) {
  return name ? html`<${Eval} name=${decodeURIComponent(name)} against=${query.against || ""} go=${go} />` : html`<${List} />`;
}

function useRead(path, given = {}) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const ended = new AbortController();
    setError("");
    get(path, given, ended.signal).then(setFound, (problem) => problem.name !== "AbortError" && setError(problem.message));
    return () => ended.abort();
  }, [path, JSON.stringify(given)]);
  return [found, error];
}

const link = (each) => `#/evals/${encodeURIComponent(each.name)}`;

function List() {
  const [found, error] = useRead("evals");
  if (error) return html`<p role="alert" class="error">${error}</p>`;
  if (!found) return html`<p class="empty" role="status">Reading…</p>`;
  return html`<section class="plots"><h1>Evals</h1>
    ${!found.evals.length && html`<p class="empty">No evals yet. <code>outrider eval TASKS -o results.jsonl --model MODEL</code> runs one.</p>`}
    ${found.evals.map((each) => html`<section class="plot" aria-label=${each.title} key=${each.name}>
      <header><h2><a href=${link(each)}>${each.title}</a></h2><span class="muted">${when(each.updated)}</span></header>
      <${Shares} figures=${each.figures} /></section>`)}
  </section>`;
}

function Eval({ name, against, go }) {
  const [found, error] = useRead(`evals/${encodeURIComponent(name)}`, { against });
  const [all] = useRead("evals");
  if (error) return html`<p role="alert" class="error">${error}</p>`;
  if (!found) return html`<p class="empty" role="status">Reading…</p>`;
  const others = (all?.evals || []).filter((each) => each.name !== name);
  return html`<section class="plots"><h1>${found.title}</h1>
    ${others.length > 0 && html`<div class="filters"><label>Compare with <select value=${against} onChange=${(event) => go({ against: event.target.value })}>
      <option value="">nothing</option>${others.map((each) => html`<option value=${each.name} selected=${each.name === against}>${each.title}, ${when(each.updated)}</option>`)}</select></label></div>`}
    ${found.comparison.map((line) => html`<p>${line}</p>`)}
    <section class="plot" aria-label="Solved"><header><h2>Solved</h2><span class="muted">share of tasks, with the interval of 95 %</span></header><${Shares} figures=${found.figures} /></section>
    <section class="plot" aria-label="Cost and time"><header><h2>Cost and time</h2></header><${Table} figures=${found.figures} /></section>
    <section class="plot" aria-label="Tasks"><header><h2>Tasks</h2><span class="muted">each mark is a trial</span></header><${Tasks} found=${found} /></section>
  </section>`;
}

const WIDTH = 400;

/** A line for each model: the interval as a bar, the share as a mark. */
function Shares({ figures }) {
  return html`<div class="shares">${figures.map((each) => html`<div class="share-row" key=${each.model}>
    <span title=${each.model}>${shortModel(each.model)}</span>
    <svg viewBox=${`0 0 ${WIDTH} 20`} preserveAspectRatio="none" role="img" aria-label=${`${percent(each.solved)}, between ${percent(each.interval[0])} and ${percent(each.interval[1])}`}>
      <line class="axis" x1="0" x2=${WIDTH} y1="10" y2="10" />
      <rect class="interval" x=${each.interval[0] * WIDTH} width=${Math.max(2, (each.interval[1] - each.interval[0]) * WIDTH)} y="6" height="8" />
      <rect class="mark" x=${each.solved * (WIDTH - 4)} width="4" y="1" height="18" />
    </svg>
    <span class="number">${percent(each.solved)}</span></div>`)}</div>`;
}

function Table({ figures }) {
  const priced = figures.every((each) => each.cost != null);
  const value = (each) => (priced ? each.cost / each.trials : each.tokens);
  const most = Math.max(...figures.map(value)) || 1;
  return html`<div class="bars" aria-hidden="true">${figures.map((each) => html`<div class="bar-row"><span>${shortModel(each.model)}</span><progress max=${most} value=${value(each)}></progress>
      <span class="number">${priced ? dollars(value(each)) : thousands(value(each))}</span></div>`)}<span class="muted">${priced ? "Cost" : "Tokens"} of a trial</span></div>
    <div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="figures">
    <thead><tr><th scope="col">Model</th>${["Solved", "Trials", "Turns", "Tokens", "Time", "Cost"].map((each) => html`<th scope="col" class="number">${each}</th>`)}</tr></thead>
    <tbody>${figures.map((each) => html`<tr><th scope="row" title=${each.model}>${shortModel(each.model)}</th><td class="number">${percent(each.solved)}</td><td class="number">${each.trials}</td>
      <td class="number">${each.turns.toFixed(1)}</td><td class="number">${thousands(Math.round(each.tokens))}</td><td class="number">${seconds(each.seconds)}</td><td class="number">${each.cost == null ? "unknown" : dollars(each.cost)}</td></tr>`)}</tbody></table></div>`;
}

function Tasks({ found }) {
  const models = found.figures.map((each) => each.model);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Trials"><table class="figures">
    <thead><tr><th scope="col">Task</th>${models.map((each) => html`<th scope="col" title=${each}>${shortModel(each)}</th>`)}</tr></thead>
    <tbody>${found.tasks.map((row) => html`<tr><th scope="row">${row.task}</th>${models.map((model) => html`<td>${row.trials.filter((each) => each.model === model).map((each) => html`<${Trial} trial=${each} />`)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Trial({ trial }) {
  const said = `trial ${trial.repeat}: ${trial.solved ? "solved" : "not solved"}, ${trial.status}, ${counted(trial.turns, "turn")}, ${seconds(trial.seconds)}`;
  return html`<a class=${trial.solved ? "trial solved" : "trial"} href=${`#/session/${trial.session}`} title=${said} aria-label=${said}>${trial.solved ? "●" : "○"}</a> `;
}
