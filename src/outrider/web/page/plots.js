// Plots, each with its table and its figures as CSV.

import { html, useEffect, useRef, useState } from "./vendor/htm/htm-preact.js";
import { address, get } from "./api.js";
import { counted, dollars, lastPart, percent, seconds, shortModel, thousands } from "./format.js";

const HEIGHT = 200;
const PERIODS = [["30", "Last 30 days"], ["7", "Last 7 days"], ["90", "Last 90 days"], ["365", "Last year"], ["0", "All time"]];
/** Milliseconds until figures that are not complete are read again. */
const AGAIN = 100;
const shortDollars = (cost) => `$${Number(cost.toPrecision(3))}`;

export function Plots({ query, go }) {
  if (query.session) return html`<${Context} id=${query.session} />`;
  return html`<${Usage} days=${query.days ?? "30"} go=${go} />`;
}

function Usage({ days, go }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const given = days === "0" ? {} : { days };
  useEffect(() => {
    let again = null;
    let gone = false;
    const read = () => Promise.all(["day", "model", "folder"].map((each) => get(`figures/${each}`, given)))
      .then((answers) => {
        if (gone) return;
        const [day, model, folder] = answers.map((each) => each.rows);
        const complete = answers.every((each) => each.complete);
        setFound({ day, model, folder, complete });
        if (!complete) again = setTimeout(read, AGAIN);
      }, (problem) => gone || setError(problem.message));
    setFound(null);
    read();
    return () => {
      gone = true;
      clearTimeout(again);
    };
  }, [days]);
  return html`<section class="plots">
    <h1>Plots</h1>
    <div class="filters"><label><span class="hidden">Time</span><select onChange=${(event) => go({ days: event.target.value })}>
      ${PERIODS.map(([value, text]) => html`<option value=${value} selected=${value === days}>${text}</option>`)}</select></label></div>
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${!found && !error && html`<p class="empty" role="status">Adding up…</p>`}
    ${found && !found.complete && html`<p class="muted" role="status">Still adding up: not all sessions are included yet.</p>`}
    ${found && html`<${Totals} rows=${found.day} />
      <${Plot} title="Cost by day" rows=${found.day} file=${address("figures/day.csv", given)} value="cost" format=${dollars} tick=${shortDollars} />
      <${Plot} title="Tokens by day" rows=${found.day} file=${address("figures/day.csv", given)} value="input_tokens" second="output_tokens" format=${thousands} />
      <${Plot} title="Cache hits by day" rows=${found.day} file=${address("figures/day.csv", given)} value="cached_share" format=${percent} line />
      <${Plot} title="Time to the first token by day" rows=${found.day} file=${address("figures/day.csv", given)} value="first_token" format=${seconds} line />
      <${Bars} title="By model" first="Model" rows=${found.model} file=${address("figures/model.csv", given)} label=${shortModel} />
      <${Bars} title="By folder" first="Folder" rows=${found.folder} file=${address("figures/folder.csv", given)} label=${lastPart} />`}
  </section>`;
}

const sum = (rows, name) => rows.reduce((total, each) => total + (each[name] || 0), 0);

/** A cost, with ≥ if it lacks requests whose price is not known. */
const costOf = ({ cost, unpriced }) => (cost == null ? "–" : `${unpriced ? "≥ " : ""}${dollars(cost)}`);

function Totals({ rows }) {
  const input = sum(rows, "input_tokens");
  const unpriced = sum(rows, "unpriced");
  const total = { cost: unpriced && !sum(rows, "cost") ? null : sum(rows, "cost"), unpriced };
  return html`<dl class="totals">
    <div><dt>Cost</dt><dd data-cost=${sum(rows, "cost")}>${costOf(total)}</dd></div>
    <div><dt>Requests</dt><dd>${sum(rows, "requests").toLocaleString("en")}</dd></div>
    <div><dt>Tokens in</dt><dd>${thousands(input)}</dd></div>
    <div><dt>Tokens out</dt><dd>${thousands(sum(rows, "output_tokens"))}</dd></div>
    <div><dt>Cached</dt><dd>${percent(input ? sum(rows, "cached_tokens") / input : null)}</dd></div>
  </dl>`;
}

function Plot({ title, rows, file, value, second, format, tick, line }) {
  if (!rows.length) return null;
  const days = everyDay(rows);
  const times = days.map((each) => noon(each.name) / 1000);
  const series = [value, second].filter(Boolean).map((name) => days.map((each) => each[name] ?? (line ? null : 0)));
  return html`<section class="plot" aria-label=${title}>
    <header><h2>${title}</h2><a href=${file} download>CSV</a></header>
    <${Chart} xs=${times} series=${series} labels=${[value, second].filter(Boolean)} format=${format} tick=${tick} line=${line} time />
    <${Figures} rows=${rows} label=${(name) => name} first="Day" />
  </section>`;
}

const noon = (day) => new Date(`${day}T12:00`).getTime();
const LEAST_DAYS = 14;

/** The days from the first one to today, also those on which nothing happened. */
function everyDay(rows) {
  const known = new Map(rows.map((each) => [each.name, each]));
  const day = new Date(Math.min(noon(rows[0].name) || Date.now(), Date.now() - (LEAST_DAYS - 1) * 86_400_000));
  day.setHours(12, 0, 0, 0);
  const days = [];
  while (day.getTime() <= Date.now() + 43_200_000 && days.length < 4000) {
    const name = [day.getFullYear(), String(day.getMonth() + 1).padStart(2, "0"), String(day.getDate()).padStart(2, "0")].join("-");
    days.push(known.get(name) || { name });
    day.setDate(day.getDate() + 1);
  }
  return days;
}

function Bars({ title, first, rows, file, label }) {
  if (!rows.length) return null;
  const byCost = [...rows].sort((a, b) => b.cost - a.cost || b.input_tokens - a.input_tokens);
  const most = Math.max(...byCost.map((each) => each.cost)) || 1;
  return html`<section class="plot" aria-label=${title}>
    <header><h2>${title}</h2><a href=${file} download>CSV</a></header>
    <div class="bars" aria-hidden="true">${byCost.slice(0, 12).map((each) => html`<div class="bar-row"><span>${label(each.name)}</span><progress max=${most} value=${each.cost ?? 0}></progress><span class="number">${costOf(each)}</span></div>`)}</div>
    <${Figures} rows=${byCost} label=${label} first=${first} />
  </section>`;
}

function Figures({ rows, label, first }) {
  return html`<details><summary>Table</summary><div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="figures">
    <thead><tr><th scope="col">${first}</th>${["Requests", "Tokens in", "Cached", "Tokens out", "First token", "Cost"].map((each) => html`<th scope="col" class="number">${each}</th>`)}</tr></thead>
    <tbody>${rows.map((each) => html`<tr><th scope="row" title=${each.name}>${label(each.name)}</th><td class="number">${each.requests.toLocaleString("en")}</td><td class="number">${each.input_tokens.toLocaleString("en")}</td>
      <td class="number">${percent(each.cached_share)}</td><td class="number">${each.output_tokens.toLocaleString("en")}</td><td class="number">${seconds(each.first_token)}</td><td class="number">${costOf(each)}</td></tr>`)}</tbody>
  </table></div></details>`;
}

function Context({ id }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => void get(`sessions/${id}/context`).then(setFound, (problem) => setError(problem.message)), [id]);
  if (error) return html`<p role="alert" class="error">${error}</p>`;
  if (!found) return html`<p class="empty" role="status">Reading…</p>`;
  const { turns, points, count } = found;
  return html`<section class="plots">
    <h1>Context by turn</h1>
    <p><a href=${`#/session/${id}`}>${found.title}</a>, ${counted(count, "turn")}${found.window ? `, window of ${thousands(found.window)} tokens` : ""}</p>
    <section class="plot" aria-label="Context by turn">
      <header><h2>Tokens of the context</h2><a href=${address(`sessions/${id}/context.csv`)} download>CSV</a></header>
      ${count > 0 && html`<${Chart} xs=${points.map((each) => each[0])} series=${[points.map((each) => each[1])]} labels=${["tokens"]} format=${thousands} line />`}
      <details><summary>Table</summary>${count > turns.length && html`<p class="muted">The newest ${counted(turns.length, "turn")}; the CSV has all.</p>`}<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="figures">
        <thead><tr><th scope="col">Turn</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Cost</th><th scope="col">Note</th></tr></thead>
        <tbody>${turns.map((each) => html`<tr><th scope="row"><a href=${`#/session/${id}?at=${each.seq}`}>${each.turn}</a></th><td class="number">${each.tokens.toLocaleString("en")}</td><td class="number">${dollars(each.cost)}</td><td>${each.compacted ? "compacted" : ""}</td></tr>`)}</tbody>
      </table></div></details>
    </section>
  </section>`;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Resolve light-dark() by asking the browser for the colour of an element. */
function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value || colour(name);
}

function Chart({ xs, series, labels, format, tick = format, line, time }) {
  const place = useRef(null);
  const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const onChange = () => setDark(scheme.matches);
    scheme.addEventListener("change", onChange);
    return () => scheme.removeEventListener("change", onChange);
  }, []);
  useEffect(() => {
    let plot = null;
    const Chart = window.uPlot;
    if (place.current) {
      const [soft, grid, ...inks] = ["--soft", "--line", "--accent", "--green"].map(resolved);
      const axis = { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      const bars = line || xs.length < 2 ? {} : { paths: Chart.paths.bars({ size: [0.7, 40] }) };
      plot = new Chart({
        width: place.current.clientWidth, height: HEIGHT, padding: [8, 20, 0, 0],
        scales: { x: { time: Boolean(time), range: (_, low, high) => (time ? [low - 43_200, high + 43_200] : [low - 0.5, high + 0.5]) }, y: { range: (_, low, high) => [0, high * 1.06 || 1] } },
        cursor: { points: { size: 6 } },
        series: [{ label: time ? "Day" : "Turn", value: (_, x) => (x == null ? "–" : time ? new Date(x * 1000).toLocaleDateString() : x) },
          ...series.map((_, index) => ({ label: labels[index].replaceAll("_", " "), stroke: inks[index], fill: line ? null : inks[index].replace("rgb(", "rgba(").replace(")", ", 0.25)"), width: 1.5, points: { show: Boolean(line) && xs.length < 60, size: 5 }, value: (_, y) => (y == null ? "–" : format(y)), ...bars }))],
        axes: [{ ...axis, space: 60 }, { ...axis, size: 64, values: (_, ticks) => ticks.map(tick) }],
      }, [xs, ...series], place.current);
    }
    const onSize = () => plot?.setSize({ width: place.current.clientWidth, height: HEIGHT });
    window.addEventListener("resize", onSize);
    return () => {
      window.removeEventListener("resize", onSize);
      plot?.destroy();
    };
  }, [xs, dark]);
  const described = `${labels[0].replaceAll("_", " ")}, ${counted(xs.length, "point")}; the table below has the figures`;
  return html`<div class="canvas" role="img" aria-label=${described} ref=${place}></div>`;
}
