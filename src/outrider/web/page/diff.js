// A unified diff as coloured lines. Screen readers hear the sign of each line.

import { html } from "./vendor/htm/htm-preact.js";

export function Diff({ text, cut }) {
  const lines = text.replace(/\n$/, "").split("\n");
  return html`<pre class="diff" tabindex="0" role="region" aria-label="Diff">${lines.map((line) => {
    const kind = /^(---|\+\+\+)/.test(line) ? "name" : line.startsWith("@@") ? "place" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
    return html`<span class=${`line ${kind}`}>${line || " "}${"\n"}</span>`;
  })}${cut ? html`<span class="line">… ${cut.toLocaleString("en")} more characters</span>` : null}</pre>`;
}
