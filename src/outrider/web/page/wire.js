// The exact request of a turn, beside the conversation.

import { html, useEffect, useRef, useState } from "./vendor/htm/htm-preact.js";
import { get } from "./api.js";
import { Copy } from "./markdown.js";

export function Wire({ id, seq, model, close }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const [as, setAs] = useState("");
  const [pages, setPages] = useState([]); // where the pages before the newest one end
  const panel = useRef(null);
  useEffect(() => panel.current?.focus(), []);
  useEffect(() => setPages([]), [id, seq, as]);
  useEffect(() => {
    let gone = false;
    setFound(null);
    setError("");
    get(`sessions/${id}/wire/${seq}`, { as, before: pages.at(-1) ?? "" })
      .then((answer) => gone || setFound(answer), (problem) => gone || setError(problem.message));
    return () => { gone = true; };
  }, [id, seq, as, pages]);
  const onKey = (event) => event.key === "Escape" && close();
  return html`<aside class="wire" role="dialog" aria-label="Request" tabindex="-1" ref=${panel} onKeyDown=${onKey}>
    <header><h2>Request</h2><span class="muted">before entry ${seq}${found ? ` · ${found.model}` : ""}</span>
      ${found && html`<${Copy} text=${found.body} />`}
      <button type="button" class="quiet" onClick=${close}>Close</button></header>
    <form onSubmit=${(event) => { event.preventDefault(); setAs(event.target.elements.as.value.trim()); }}>
      <input name="as" aria-label="Model" placeholder=${model || "provider/model"} value=${as} /><button>Show for this model</button></form>
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${found?.lost && html`<p class="warn">${found.lost}</p>`}
    ${found && (found.earlier || pages.length > 0) && html`<p class="pages"><span class="muted">A long request: this page has some of its messages.</span>
      <button type="button" class="small" disabled=${!found.earlier} onClick=${() => setPages([...pages, found.earlier])}>Earlier messages</button>
      <button type="button" class="small" disabled=${!pages.length} onClick=${() => setPages(pages.slice(0, -1))}>Later messages</button></p>`}
    ${found && html`<p class="muted">${found.address}</p><pre tabindex="0" role="region" aria-label="Body">${found.body}</pre>`}
    ${!found && !error && html`<p class="muted">Rendering…</p>`}
  </aside>`;
}
