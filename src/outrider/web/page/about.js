// What a session is: model, folder, cost, context, sub-agents.

import { html } from "./vendor/htm/htm-preact.js";
import { counted, dollars, exactly, shownId, size, thousands } from "./format.js";

export function About({ head, id, fork, budgets }) {
  const { usage, total, context } = head;
  const share = context.used != null && context.window ? Math.round((100 * context.used) / context.window) : null;
  return html`<details class="about">
    <summary>
      ${head.open && html`<span class="badge live">open</span>`}
      <span>${head.model || "no model"}</span>
      <span>${counted(head.turns, "turn")}</span>
      ${total.cost != null && html`<span>${dollars(total.cost)}</span>`}
      ${share != null && html`<span>${share}% of the context</span>`}
      ${total.input_tokens > 0 && html`<span>${cachedShare(total)}% cached</span>`}
      ${head.children.length > 0 && html`<span>${counted(head.children.length, "sub-agent")}</span>`}
      ${budgets.map((each) => html`<span class=${each.warned ? "warn" : ""}>${spent(each)} today</span>`)}
    </summary>
    <dl>
      <dt>Id</dt><dd><code>${id}</code></dd>
      ${head.folder && html`<dt>Folder</dt><dd>${head.folder}</dd>`}
      <dt>Started</dt><dd>${exactly(head.created)}</dd>
      <dt>Last entry</dt><dd>${exactly(head.updated)}</dd>
      <dt>Tokens</dt><dd>${thousands(usage.input_tokens)} in (${thousands(usage.cached_tokens)} cached, ${cachedShare(usage)}%), ${thousands(usage.output_tokens)} out</dd>
      ${usage.cost != null && html`<dt>Cost</dt><dd>${dollars(usage.cost)}${head.children.length ? `, ${dollars(total.cost)} with sub-agents` : ""}</dd>`}
      ${budgets.map((each) => html`<dt>Budget</dt><dd>${each.text}${each.cost >= each.budget ? ". It is used up: no request is sent until midnight" : each.warned ? ". It is nearly used up" : ""}
        <meter min="0" max=${each.budget} high=${0.8 * each.budget} value=${each.cost} aria-label=${`budget.${each.name}`}></meter></dd>`)}
      ${context.used != null && html`<dt>Context</dt><dd>${thousands(context.used)}${context.window ? ` of ${thousands(context.window)} tokens` : " tokens"}
        ${share != null && html`<meter min="0" max="100" value=${share} aria-label="Context"></meter>`}</dd>`}
      ${head.shortened > 0 && html`<dt>Shortened</dt><dd>${counted(head.shortened, "time")}</dd>`}
      <dt>Size</dt><dd>${size(head.size)}</dd>
      ${head.open && html`<dt>Open in</dt><dd>${head.program}</dd>`}
    </dl>
    ${head.children.length > 0 && html`<h2>Sub-agents</h2><${Tree} branches=${head.children} />`}
    <p class="about-actions"><button type="button" onClick=${fork}>Fork</button>
      <a class="button" href=${`#/plots?session=${id}`}>Context by turn</a></p>
  </details>`;
}

const spent = (each) => `${dollars(each.cost)} of ${dollars(each.budget)}`;
const cachedShare = (usage) => Math.round((100 * usage.cached_tokens) / Math.max(1, usage.input_tokens));

function Tree({ branches }) {
  return html`<ul class="tree">${branches.map((each) => html`<li>
    <a href=${`#/session/${each.id}`}>${each.title || shownId(each.id)}</a>
    <span class="muted">${counted(each.turns, "turn")}${each.usage.cost != null ? `, ${dollars(each.usage.cost)}` : ""}${each.open ? ", open" : ""}</span>
    ${each.children.length > 0 && html`<${Tree} branches=${each.children} />`}
  </li>`)}</ul>`;
}
