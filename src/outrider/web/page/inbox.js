import { html } from "./vendor/htm/htm-preact.js";

export function Inbox() {
  return html`<section><h1>Inbox</h1><p class="empty">Nothing waits for you.</p></section>`;
}
