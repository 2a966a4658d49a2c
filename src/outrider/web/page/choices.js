// What the model wants to know: choices, each with a line for other words, or free text.

import { html, useState } from "./vendor/htm/htm-preact.js";

export function Choices({ question, answer, busy }) {
  const [given, setGiven] = useState({});
  const of = (each) => given[each.key] || { taken: [], words: "" };
  const set = (each, changes) => setGiven((now) => ({ ...now, [each.key]: { ...of(each), ...changes } }));
  const values = (each) => [...new Set([...of(each).taken, of(each).words.trim()].filter(Boolean))];
  const send = question.options.find((each) => each.allows);
  const others = question.options.filter((each) => !each.allows);
  const isComplete = question.questions.every((each) => values(each).length > 0);
  const submit = (event) => {
    event.preventDefault();
    answer(send, { content: Object.fromEntries(question.questions.map((each) => [each.key, each.multiple ? values(each) : values(each)[0]])) });
  };
  return html`<form class="choices" onSubmit=${submit}>
    ${question.questions.map((each) => html`<${Choice} key=${each.key} ...${{ id: question.id, asked: each, now: of(each), set: (changes) => set(each, changes) }} />`)}
    <div class="answers"><button class="main" disabled=${busy || !isComplete}>${send.label}</button>
      ${others.map((each) => html`<button type="button" disabled=${busy} onClick=${() => answer(each)}>${each.label}</button>`)}</div>
  </form>`;
}

/** One question. A single answer is a choice or other words: whichever came last. */
function Choice({ id, asked, now, set }) {
  const take = (value) => {
    if (!asked.multiple) set({ taken: [value], words: "" });
    else set({ taken: now.taken.includes(value) ? now.taken.filter((each) => each !== value) : [...now.taken, value] });
  };
  const write = (event) => set(asked.multiple ? { words: event.target.value } : { taken: [], words: event.target.value });
  const label = asked.choices.length ? "Or in your own words" : "Your answer";
  return html`<fieldset>
    <legend>${asked.header && html`<small class="muted">${asked.header}</small>`}<span class="said">${asked.text}</span></legend>
    ${asked.choices.map((each) => html`<label class="choice"><input type=${asked.multiple ? "checkbox" : "radio"} name=${`${id}-${asked.key}`} checked=${now.taken.includes(each.value)} onChange=${() => take(each.value)} />
      <span>${each.label}${each.description && html`<small class="muted">${each.description}</small>`}</span></label>`)}
    ${asked.own_words && html`<input aria-label=${label} placeholder=${label} maxlength="10000" value=${now.words} onInput=${write} />`}
  </fieldset>`;
}
