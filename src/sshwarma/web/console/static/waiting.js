// The badge of calls that wait for an answer, on every page.
import { fetchPart } from "./act.js";
import { setHTML } from "./html.js";

const place = document.getElementById("waiting");
// A room hears of its own calls at once; other pages ask more often.
const EVERY_MILLISECONDS = document.getElementById("log") ? 15_000 : 4_000;
let shown = "";

async function ask() {
  if (document.visibilityState !== "visible") return;
  try {
    const answer = await fetchPart("/waiting", { isItself: true });
    const html = (await answer.text()).trim();
    if (answer.ok && html !== shown) setHTML(place, (shown = html));
  } catch {
    // The next time will do: the page itself says if the server is away.
  }
}

if (place) {
  ask();
  setInterval(ask, EVERY_MILLISECONDS);
  document.addEventListener("visibilitychange", ask);
  document.addEventListener("stale", ({ detail }) => detail === "questions" && ask());
}
