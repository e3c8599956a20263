// Private messages: asked for again while somebody looks at them, and read once somebody has seen them.
import { fetchPart } from "./act.js";
import { drawAgain } from "./html.js";

const place = document.getElementById("polled");
const EVERY_MILLISECONDS = 4000;
let shown = "";

async function refresh() {
  if (document.visibilityState !== "visible") return;
  try {
    const answer = await fetchPart(location.href, { isItself: true });
    const html = await answer.text();
    if (!answer.ok || html === shown || place.contains(document.activeElement)) return; // what has the focus stays
    shown = html;
    drawAgain(place, html);
    await markRead();
  } catch {
    // The next time will do.
  }
}

async function markRead() {
  const form = document.getElementById("mark-read");
  if (!form || document.visibilityState !== "visible") return;
  const answer = await fetchPart(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), isItself: true });
  if (!answer.ok) return;
  form.remove();
  document.dispatchEvent(new CustomEvent("stale", { detail: "questions" })); // the badge has fewer
}

document.addEventListener("acted", refresh);
document.addEventListener("visibilitychange", () => markRead().catch(() => {}).then(refresh));
setInterval(refresh, EVERY_MILLISECONDS);
markRead().catch(() => {});
