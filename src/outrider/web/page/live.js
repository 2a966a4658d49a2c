// What happens now: one stream of events for the whole page. It comes back on its own and catches up by the event id.

import { useEffect, useMemo, useRef, useState } from "./vendor/htm/htm-preact.js";
import { address, get } from "./api.js";

const EMPTY = { working: false, nodes: [], thinking: "", prepared: [], outputs: {}, notice: "" };
const LOST_MILLISECONDS = 2500;

export function useLive() {
  const [questions, setQuestions] = useState([]);
  const [changed, setChanged] = useState([]);
  const [lost, setLost] = useState(false);
  const [said, setSaid] = useState("");
  const [settled, setSettled] = useState([]);
  const [draft, setDraft] = useState(EMPTY);
  const [watched, setWatched] = useState(null);
  const known = useRef([]);

  useEffect(() => {
    let timer = null;
    let stream = null;
    let closed = false;
    const last = { seq: watched?.after ?? 0 };
    const open = () => {
      if (closed) return;
      stream = new EventSource(address("events", { form: "view", ...(watched ? { session: watched.id, after: last.seq } : {}) }));
      const on = (name, handle) => stream.addEventListener(name, (event) => handle(JSON.parse(event.data), event));
      stream.onopen = () => {
        clearTimeout(timer);
        timer = null;
        setLost(false);
      };
      stream.onerror = () => {
        timer ??= setTimeout(() => setLost(true), LOST_MILLISECONDS);
        if (stream.readyState === EventSource.CLOSED) setTimeout(open, 1500); // the server refused or went away: try again
      };
      on("questions", (now) => {
        const waiting = new Set(now.map((each) => each.id));
        const known_ids = new Set(known.current.map((each) => each.id));
        for (const gone of known.current.filter((each) => !waiting.has(each.id))) settle(gone);
        for (const added of now.filter((each) => !known_ids.has(each.id))) setSaid(`Question: ${added.title || added.message}`);
        known.current = now;
        setQuestions(now);
      });
      on("sessions", setChanged);
      on("entry", (entry, event) => {
        last.seq = Number(event.lastEventId) || last.seq;
        watched?.entry(entry);
      });
      on("reload", () => watched?.reload());
      on("draft", ({ keep, nodes, ...changes }) => setDraft((now) => ({ ...now, ...changes, nodes: nodes ? [...now.nodes.slice(0, keep), ...nodes] : now.nodes })));
    };
    setDraft(EMPTY);
    open();
    return () => {
      closed = true;
      clearTimeout(timer);
      stream?.close();
    };
  }, [watched]);

  // Someone answered, here or elsewhere: say who.
  const settle = async (question) => {
    const found = await get(`questions/${question.id}`, { form: "view" }).catch(() => null);
    if (!found?.answer) return;
    const option = question.options.find((each) => each.id === found.answer);
    const verdict = ["permission", "plan"].includes(question.kind) ? ["Denied", "Allowed"] : ["Declined", "Answered"];
    const text = `${verdict[Number(Boolean(option?.allows))]} ${found.answered_by}: ${question.title || question.message}${/^(always|prefix)$/.test(found.answer) ? ` — stored: ${question[found.answer].join(", ")}; to undo it: outrider config forget` : ""}`;
    setSaid(text);
    setSettled((now) => [...now.filter((each) => each.id !== question.id), { id: question.id, session: question.session, text, allowed: Boolean(option?.allows) }].slice(-20));
  };
  return useMemo(
    () => ({ questions, changed, lost, said, settled, draft, watch: setWatched, say: setSaid }),
    [questions, changed, lost, said, settled, draft],
  );
}
