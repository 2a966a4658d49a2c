// Nodes from the server to elements of the page. Only these elements exist; every text is a text.

import { html, useState } from "./vendor/htm/htm-preact.js";

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "em", "strong", "s",
  "table", "thead", "tbody", "tr", "th", "td", "code", "br", "hr", "span"]);
const ALIGNMENTS = new Set(["left", "center", "right"]);

export function Markdown({ nodes }) {
  return html`<div class="markdown">${nodes.map(element)}</div>`;
}

function element(node) {
  if (typeof node === "string") return node;
  const [tag, attributes, children] = node;
  if (tag === "pre") return html`<${Code} text=${children} language=${attributes.language} />`;
  const inside = (children || []).map(element);
  if (tag === "a") return html`<${Link} address=${attributes.href}>${inside}<//>`;
  if (tag === "table") return html`<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>${inside}</table></div>`;
  if (!TAGS.has(tag)) return html`<span>${inside}</span>`;
  const align = ALIGNMENTS.has(attributes.align) ? `align-${attributes.align}` : null;
  return html`<${tag} class=${align} start=${tag === "ol" ? attributes.start : null}>${inside}<//>`;
}

export function Link({ address, children }) {
  if (!/^(https?:\/\/|mailto:)/i.test(address || "")) return html`<span>${children}</span>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer nofollow" title=${address}>${children}</a>`;
}

export function Code({ text, language, label }) {
  return html`<div class="code">
    <div class="code-head"><span>${language || label || ""}</span><${Copy} text=${text} /></div>
    <pre tabindex="0" role="region" aria-label=${language ? `Code, ${language}` : label || "Code"}><code>${highlighted(text, language)}</code></pre>
  </div>`;
}

export function Copy({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text).then(() => setDone(true), () => {});
    setTimeout(() => setDone(false), 1500);
  };
  if (!navigator.clipboard) return null; // browsers have none without encryption, as with --lan
  return html`<button type="button" class="quiet small" onClick=${copy}>${done ? "Copied" : "Copy"}</button>`;
}

// A light touch of colour: comments, strings, numbers and the words that most languages share.
const HASH = new Set(["py", "python", "sh", "bash", "shell", "console", "zsh", "ruby", "rb", "toml", "yaml", "yml", "dockerfile", "make", "r", "perl"]);
const NO_COLOUR = new Set(["text", "txt", "", "markdown", "md", "diff", "console"]);
const WORDS = /^(?:and|as|assert|async|await|break|case|catch|class|const|continue|def|default|del|do|done|elif|else|enum|except|export|extends|false|False|fi|finally|fn|for|from|func|function|if|impl|import|in|interface|is|lambda|let|match|mod|mut|new|nil|None|not|null|or|package|pass|pub|raise|return|self|static|struct|super|switch|then|this|throw|true|True|try|type|use|var|while|with|yield)$/;
const MAX_COLOURED = 20_000;

export function highlighted(text, language) {
  const name = (language || "").toLowerCase();
  if (NO_COLOUR.has(name) || text.length > MAX_COLOURED) return text;
  const comment = HASH.has(name) ? "#[^\\n]*" : name === "sql" || name === "lua" ? "--[^\\n]*" : "//[^\\n]*|/\\*[\\s\\S]*?\\*/";
  const tokens = new RegExp(`(${comment})|("(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)|\\b(\\d[\\w.]*)\\b|\\b([A-Za-z_]\\w*)\\b`, "g");
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(tokens)) {
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "number" : WORDS.test(found[4]) ? "word" : "";
    if (!kind) continue;
    parts.push(text.slice(end, found.index), html`<span class=${`t-${kind}`}>${found[0]}</span>`);
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}
