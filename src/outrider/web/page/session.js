// One session: its messages in pages, what happens now, and what one can do about it.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm/htm-preact.js";
import { get, post } from "./api.js";
import { About } from "./about.js";
import { Background, Composer, Draft, Goal } from "./composer.js";
import { grouped, Item } from "./entries.js";
import { Question } from "./inbox.js";
import { Wire } from "./wire.js";

const MOST = 480;
/* Entries in the document at once. Older or newer ones are read again when they are needed. */

export function Session({ id, place, live }) {
  const [head, setHead] = useState(null);
  const [page, setPage] = useState(null);
  const [error, setError] = useState("");
  const [wire, setWire] = useState(null);
  const pageNow = useRef(null);
  pageNow.current = page;
  const busy = useRef(false);
  const keep = useRef(null);
  const [atEnd, setAtEnd] = useState(true);

  const fail = (problem) => setError(problem.message);
  const readHead = () => get(`sessions/${id}`).then(setHead, fail);
  const [budgets, setBudgets] = useState([]);
  useEffect(() => {
    if (head && head.id === id) get(`sessions/${id}/budget`).then((found) => setBudgets(found.budgets), () => setBudgets([]));
  }, [id, head?.id, head?.total.cost, head?.working]);
  useEffect(() => {
    setPage(null);
    setError("");
    setHead(null);
    readHead();
    get(`sessions/${id}/entries`, { form: "view", ...(place ? { around: place } : {}) }).then((found) => {
      keep.current = place ? { to: place } : { end: true };
      setPage(found);
    }, fail);
  }, [id, place]);

  const read = async (given) => {
    if (busy.current || !pageNow.current) return;
    busy.current = true;
    try {
      const found = await get(`sessions/${id}/entries`, { form: "view", ...given });
      const now = pageNow.current;
      if (given.before != null) {
        keep.current = { height: document.documentElement.scrollHeight };
        setPage(trimmed({ ...now, entries: [...found.entries, ...now.entries], first: found.first, earlier: found.earlier }, "end"));
      } else {
        const joined = { ...now, entries: [...now.entries, ...found.entries], last: found.last, later: found.later };
        setPage(trimmed(joined, "start"));
      }
    } catch (problem) {
      fail(problem);
    } finally {
      busy.current = false;
    }
  };
  const earlier = () => pageNow.current?.earlier && read({ before: pageNow.current.first });
  const later = () => pageNow.current?.later && read({ after: pageNow.current.last });
  const newest = async () => {
    const found = await get(`sessions/${id}/entries`, { form: "view" });
    keep.current = { end: true };
    setPage(found);
  };

  const isRead = Boolean(page);
  useEffect(() => {
    if (!isRead) return;
    let timer = null;
    live.watch({
      id,
      after: pageNow.current.later ? head?.last ?? pageNow.current.last : pageNow.current.last,
      entry: (entry) => {
        setPage((now) => (now && !now.later ? trimmed(added(now, entry), "start") : now));
        timer ??= setTimeout(() => { timer = null; readHead(); }, 300);
      },
      reload: () => !pageNow.current.later && newest(),
    });
    return () => {
      clearTimeout(timer);
      live.watch(null);
    };
  }, [id, isRead]);
  const here = live.changed.find((each) => each.id === id);
  useEffect(() => here && readHead(), [here?.open, here?.last]);

  useLayoutEffect(() => {
    const wanted = keep.current;
    keep.current = null;
    if (!page || (!wanted && !atEnd)) return;
    if (wanted?.height) window.scrollBy(0, document.documentElement.scrollHeight - wanted.height);
    else if (wanted?.to) highlight(wanted.to);
    else window.scrollTo(0, document.documentElement.scrollHeight);
  }, [page, live.draft, live.questions]);
  useEffect(() => {
    const onScroll = () => {
      const rest = document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
      setAtEnd(rest < 120);
      if (window.scrollY < 600) earlier();
      if (rest < 600) later();
    };
    window.addEventListener("scroll", onScroll, { passive: true });
    return () => window.removeEventListener("scroll", onScroll);
  }, [id]);

  const fork = async (at) => {
    try {
      location.hash = `#/session/${(await post(`sessions/${id}/fork`, { at })).id}`;
    } catch (problem) {
      fail(problem);
    }
  };
  const actions = useMemo(() => ({ wire: setWire, fork }), [id]);
  const { items, calls, tasks } = useMemo(() => grouped(page?.entries || []), [page]);
  const draft = live.draft;
  const drafts = useMemo(() => new Map(Object.entries(draft.outputs).map(([call, output]) => [call, { output }])), [draft.outputs]);
  const questions = live.questions.filter((each) => each.session === id);
  const working = draft.working || Boolean(head?.working);

  return html`<div class=${wire ? "session with-wire" : "session"}>
    <div class="transcript">
      <header class="session-head">
        ${head?.ancestors?.length ? html`<nav aria-label="Parents" class="crumbs">${head.ancestors.map((each) => html`<a href=${`#/session/${each.id}`}>${each.title}</a>`)}</nav>` : null}
        <h1>${head ? head.title || "(no title)" : "…"}</h1>
        ${head && html`<${About} ...${{ head, id, budgets }} fork=${() => fork(null)} />`}
      </header>
      ${error && html`<p role="alert" class="error">${error}</p>`}
      ${page?.earlier && html`<button type="button" class="more" onClick=${earlier}>Earlier messages</button>`}
      <ol class="messages" aria-label="Messages">
        ${items.map(({ entry }) => html`<li key=${entry.seq} id=${`entry-${entry.seq}`}><${Item} ...${{ entry, calls, session: id, actions, drafts }} /></li>`)}
      </ol>
      ${page?.later && html`<button type="button" class="more" onClick=${later}>Later messages</button>`}
      ${page && !page.later && html`<${Draft} draft=${draft} working=${working && !questions.length} />`}
      ${questions.map((each) => html`<${Question} key=${each.id} question=${each} live=${live} />`)}
      <${Background} ...${{ id, head, tasks, live }} />
      <${Goal} ...${{ id, head, live }} read=${readHead} />
      <${Composer} ...${{ id, head, working, live }} read=${readHead} />
      ${!atEnd && html`<button type="button" class="to-end" onClick=${() => (page?.later ? newest() : window.scrollTo(0, document.documentElement.scrollHeight))}>↓ <span>Newest</span></button>`}
    </div>
    ${wire != null && html`<${Wire} id=${id} seq=${wire} model=${head?.model} close=${() => setWire(null)} />`}
  </div>`;
}

function added(page, entry) {
  const rest = page.entries.filter((each) => each.seq !== entry.seq);
  return { ...page, entries: [...rest, entry].sort((a, b) => a.seq - b.seq), last: Math.max(page.last, entry.seq) };
}

function trimmed(page, from) {
  if (page.entries.length <= MOST) return page;
  if (from === "end") {
    const entries = page.entries.slice(0, MOST);
    return { ...page, entries, last: entries[entries.length - 1].seq, later: true };
  }
  const entries = page.entries.slice(-MOST);
  return { ...page, entries, first: entries[0].seq, earlier: true };
}

function highlight(seq) {
  for (const near of [seq, seq - 1, seq - 2, seq - 3]) {
    const found = document.getElementById(`entry-${near}`);
    if (!found) continue;
    found.scrollIntoView({ block: "center" });
    found.classList.add("marked");
    found.querySelectorAll("details.call").forEach((each) => each.open || each.querySelector("summary").click());
    return;
  }
}
