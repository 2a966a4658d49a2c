// What happens now. (Filled by the server's events.)

import { useState } from "./vendor/htm/htm-preact.js";

const nothing = () => null;

export function useLive() {
  const [live] = useState({ questions: [], changed: [], lost: false, said: "", watch: () => nothing, draftOf: nothing, renderDraft: nothing, renderQuestions: nothing, renderComposer: nothing });
  return live;
}
