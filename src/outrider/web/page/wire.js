// The exact request of a turn, beside the conversation.

import { html, useEffect, useRef, useState } from "./vendor/htm/htm-preact.js";
import { get } from "./api.js";
import { Copy } from "./markdown.js";

export function Wire({ id, seq, model, close }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const [as, setAs] = useState("");
  const panel = useRef(null);
  useEffect(() => panel.current?.focus(), []);
  useEffect(() => {
    setFound(null);
    setError("");
    get(`sessions/${id}/wire/${seq}`, { as }).then(setFound, (problem) => setError(problem.message));
  }, [id, seq, as]);
  const onKey = (event) => event.key === "Escape" && close();
  return html`<aside class="wire" role="dialog" aria-label="Request" tabindex="-1" ref=${panel} onKeyDown=${onKey}>
    <header><h2>Request</h2><span class="muted">before entry ${seq}${found ? ` · ${found.model}` : ""}</span>
      ${found && html`<${Copy} text=${found.body} />`}
      <button type="button" class="quiet" onClick=${close}>Close</button></header>
    <form onSubmit=${(event) => { event.preventDefault(); setAs(event.target.elements.as.value.trim()); }}>
      <input name="as" aria-label="Model" placeholder=${model || "provider/model"} value=${as} /><button>Show for this model</button></form>
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${found && html`<p class="muted">${found.address}</p><pre tabindex="0" role="region" aria-label="Body">${found.body}</pre>`}
    ${!found && !error && html`<p class="muted">Rendering…</p>`}
  </aside>`;
}
