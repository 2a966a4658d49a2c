// The frame of the page: navigation, and which part is shown.

import { Component, html, render, useEffect, useState } from "./vendor/htm/htm-preact.js";
import { base, post } from "./api.js";
import { Evals } from "./evals.js";
import { useLive } from "./live.js";
import { Inbox } from "./inbox.js";
import { Plots } from "./plots.js";
import { Session } from "./session.js";
import { Sessions } from "./sessions.js";

localStorage.setItem("outrider-path", base);

function parsed() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [part, id] = path.split("/");
  return { part: part || "sessions", id, query: Object.fromEntries(new URLSearchParams(query || "")) };
}

const hashOf = (part, query) => {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${part}${text ? `?${text}` : ""}`;
};

function App() {
  const [place, setPlace] = useState(parsed());
  const live = useLive();
  useEffect(() => {
    const onHash = () => {
      setPlace(parsed());
      if (!location.hash.includes("?")) window.scrollTo(0, 0);
    };
    const onKey = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
      event.preventDefault();
      if (parsed().part !== "sessions") location.hash = "#/sessions";
      setTimeout(() => document.getElementById("search")?.focus());
    };
    window.addEventListener("hashchange", onHash);
    window.addEventListener("keydown", onKey);
    return () => {
      window.removeEventListener("hashchange", onHash);
      window.removeEventListener("keydown", onKey);
    };
  }, []);
  const go = (part) => (query, replace) => {
    const hash = hashOf(part, query);
    if (replace) {
      history.replaceState(null, "", hash);
      setPlace(parsed());
    } else location.hash = hash;
  };
  const waiting = live.questions.length;
  useEffect(() => void (document.title = waiting ? `(${waiting}) Outrider` : "Outrider"), [waiting]);
  const item = (part, label, count) => html`<a href=${`#/${part}`} aria-current=${place.part === part ? "page" : null}>${label}${count ? html` <span class="count">${count}</span>` : null}</a>`;

  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/sessions" aria-label="Outrider"><svg viewBox="0 0 32 32" aria-hidden="true"><path d="M4 26 16 4l12 22-12-7z" /></svg><span>Outrider</span></a>
      <nav aria-label="Main">${item("inbox", "Inbox", waiting)}${item("sessions", "Sessions")}${item("plots", "Plots")}${item("evals", "Evals")}</nav>
      <${Devices} />
    </header>
    ${live.lost && html`<p class="lost" role="status">The connection is lost. Trying again…</p>`}
    <p class="hidden" aria-live="polite">${live.said}</p>
    <main id="main" tabindex="-1"><${Guard} key=${place.part + (place.id || "")}>${
      place.part === "session" ? html`<${Session} id=${place.id} place=${Number(place.query.at) || 0} live=${live} />`
      : place.part === "inbox" ? html`<${Inbox} live=${live} />`
      : place.part === "plots" ? html`<${Plots} query=${place.query} go=${go("plots")} />`
      : place.part === "evals" ? html`<${Evals} name=${place.id} query=${place.query} go=${go(`evals/${place.id}`)} />`
      : html`<${Sessions} live=${live} query=${place.query} go=${go("sessions")} />`}<//></main>`;
}

/** Shows a mistake of the page in place of an empty screen. */
class Guard extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }
  render({ children }, { error }) {
    return error ? html`<p role="alert" class="error">This part cannot be shown: ${error.message}</p>` : children;
  }
}

function Devices() {
  const [links, setLinks] = useState(null);
  const [error, setError] = useState("");
  const make = () => post("links").then((found) => setLinks(found.links), (problem) => setError(problem.message));
  return html`<div class="devices">
    <button type="button" class="quiet" aria-label="Add a device" aria-expanded=${Boolean(links)} onClick=${() => (links ? setLinks(null) : make())}><span class="wide">Add a device</span><span class="slim">+</span></button>
    ${error && html`<p role="alert" class="error">${error}</p>`}
    ${links && html`<div class="popover"><p>Each link lets one browser in, once:</p>${links.map((link) => html`<p><code>${link}</code></p>`)}</div>`}
  </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
