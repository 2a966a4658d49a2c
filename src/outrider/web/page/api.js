// Requests to the server. All addresses are below the path of the page.

export const base = location.pathname.replace(/[^/]*$/, "");

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function read(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(value.error || `The server answered ${response.status}.`, response.status);
  return value;
}

export function address(path, given = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== "" && value != null) query.set(name, value);
  const text = query.toString();
  return `${base}api/v1/${path}${text ? `?${text}` : ""}`;
}

export async function get(path, given, signal) {
  return read(await fetch(address(path, given), { signal }));
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json" };
  return read(await fetch(address(path), { method: "POST", headers, body: JSON.stringify(body) }));
}
