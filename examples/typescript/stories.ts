// Three stories: an answer, a question that a person answers, and what is found again.
//
//   OUTRIDER_URL=http://127.0.0.1:8321 OUTRIDER_TOKEN=… OUTRIDER_FOLDER=/path/to/project node build/stories.js

import { found, Outrider } from "./client.js";

const token = process.env.OUTRIDER_TOKEN ?? "";
const folder = process.env.OUTRIDER_FOLDER ?? process.cwd();
const model = process.env.OUTRIDER_MODEL ?? ""; // that of the settings
const outrider = new Outrider(process.env.OUTRIDER_URL ?? "http://127.0.0.1:8321", { Authorization: `Bearer ${token}` });

// 1. An answer, and a second prompt in the same session.
const id = await outrider.begin({ text: "What is 2+2?", folder, model, metadata: { story: "sum" } });
console.log("answer:", await outrider.answer(id));
const path = { id };
found(await outrider.api.POST("/api/v1/sessions/{id}/prompt", { params: { path }, body: { text: "What is 3+4?" } }));

// 2. A file outside of the folder, which a person must allow.
const asking = await outrider.begin({ text: "Read /etc/host.conf", folder, model, mode: "ask" });
const answer = await outrider.answer(asking, (question) => {
  console.log("question:", question.body.kind, "title" in question.body ? question.body.title : "");
  return "once";
});
console.log("allowed:", answer.length > 0);

// 3. What was said is found again, forked and read.
const page = found(await outrider.api.GET("/api/v1/sessions", { params: { query: { metadata: "story=sum" } } }));
const fork = found(await outrider.api.POST("/api/v1/sessions/{id}/fork", { params: { path }, body: {} }));
const copied = found(await outrider.api.GET("/api/v1/sessions/{id}/messages", { params: { path: { id: fork.id } } }));
console.log("found:", page.sessions.length, "copied:", copied.messages[0]?.role);
const missing = await outrider.api.GET("/api/v1/sessions/{id}", { params: { path: { id: "none" } } });
console.log("missing:", missing.response.status, missing.error?.error);
