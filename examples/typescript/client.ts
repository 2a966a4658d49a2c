// A client of the API of `outrider serve`: typed requests, and a stream of events that comes back after a lost connection.

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./outrider.js";

export type Entry = components["schemas"]["Entry"];
export type Question = components["schemas"]["Question"];

export interface StreamEvent {
  id: string;
  name: string;
  data: any;
}

export class Outrider {
  readonly api: Client<paths>;

  constructor(private readonly url: string, private readonly headers: Record<string, string>) {
    this.api = createClient<paths>({ baseUrl: url, headers });
  }

  /** Begin a session, and return its id. */
  async begin(body: components["schemas"]["NewSession"]): Promise<string> {
    return found(await this.api.POST("/api/v1/sessions", { body })).id;
  }

  /** Yield the events of a session. It comes back with the last id after a lost connection, so that none is missed. */
  async *events(id: string, after = "0"): AsyncGenerator<StreamEvent> {
    for (;;) {
      try {
        const address = `${this.url}/api/v1/sessions/${id}/events`;
        const response = await fetch(address, { headers: { ...this.headers, "Last-Event-ID": after } });
        if (response.status !== 200 || !response.body) throw new Error(`the server answered ${response.status}`);
        for await (const event of parsed(response.body)) {
          after = event.id || after;
          yield event;
        }
      } catch (problem) {
        if (problem instanceof Error && problem.message.startsWith("the server answered")) throw problem;
      }
      await new Promise((done) => setTimeout(done, 500));
    }
  }

  /** Return the text of the answer to a prompt. `ask` answers questions: the id of an option. */
  async answer(id: string, ask: (question: Question) => string = () => "no"): Promise<string> {
    let text = "";
    const asked = new Set<string>();
    for await (const event of this.events(id)) {
      if (event.name === "questions") {
        for (const question of (event.data as Question[]).filter((each) => !asked.has(each.id))) {
          asked.add(question.id);
          const path = { id: question.id };
          await this.api.POST("/api/v1/questions/{id}/answer", { params: { path }, body: { option: ask(question) } });
        }
      }
      if (event.name !== "entry") continue;
      const entry = event.data as Entry;
      if (entry.kind === "message" && entry.message.role === "assistant") {
        text = entry.message.content.map((block) => ("text" in block && block.type === "text" ? block.text : "")).join("");
      }
      if (entry.kind === "run_stopped" && entry.status !== "waiting") return text;
    }
    throw new Error("unreachable");
  }
}

/** Return the data of a response, or throw what the server says. */
export function found<T>(response: { data?: T; error?: { error: string } }): T {
  if (response.data === undefined) throw new Error(response.error?.error ?? "no answer");
  return response.data;
}

async function* parsed(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(piece, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => [line.split(": ", 1)[0]!, line.slice(line.indexOf(": ") + 2)]));
      if (fields.data) yield { id: fields.id ?? "", name: fields.event ?? "message", data: JSON.parse(fields.data) };
    }
  }
}
