import { html } from "./vendor/htm/htm-preact.js";

export function Plots() {
  return html`<section><h1>Plots</h1></section>`;
}
