// A browser that was let in before finds its way back. The cookie is bound to that path.
const path = localStorage.getItem("outrider-path");
const isRefused = new URLSearchParams(location.search).has("token");
if (path && /^\/[0-9a-f]{16}\/$/.test(path)) {
  const answer = await fetch(`${path}api/v1/facets`).catch(() => null);
  if (answer?.ok) location.replace(path);
  else localStorage.removeItem("outrider-path");
}
if (isRefused) {
  const note = document.createElement("p");
  note.setAttribute("role", "alert");
  note.textContent = "This link was used already, or is too old.";
  document.querySelector("h1").after(note);
}
