// Numbers and times for people.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dateWithYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// An id as it is shown: the beginning of a random one, or all of one that a program chose.
export const shownId = (id) => (/^[0-9a-f]{32}$/.test(id) ? id.slice(0, 8) : id);

export function when(seconds, now = Date.now() / 1000) {
  const past = now - seconds;
  if (past < 45) return "just now";
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  const moment = new Date(seconds * 1000), today = new Date(now * 1000);
  if (moment.toDateString() === today.toDateString()) return clock.format(moment);
  return (moment.getFullYear() === today.getFullYear() ? date : dateWithYear).format(moment);
}

export const at = (seconds) => clock.format(new Date(seconds * 1000));
export const exactly = (seconds) => exact.format(new Date(seconds * 1000));
export const isoTime = (seconds) => new Date(seconds * 1000).toISOString();

export function dollars(cost) {
  if (cost == null) return "";
  return cost < 1 ? `$${cost.toFixed(4)}` : `$${cost.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function thousands(number) {
  if (number >= 1e6) return `${(number / 1e6).toPrecision(3)}M`;
  return number >= 10_000 ? `${Math.round(number / 1000)}k` : number.toLocaleString("en");
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(0)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

export const counted = (number, noun, plural = `${noun}s`) => `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;

export const lastPart = (folder) => folder.split("/").filter(Boolean).pop() || folder;

export const shortModel = (model) => model.split("/").pop();

export const percent = (share) => (share == null ? "–" : `${Math.round(share * 100)} %`);
export const seconds = (value) => (value == null ? "–" : `${value.toFixed(value < 100 ? 2 : 0)} s`);
