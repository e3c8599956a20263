// Signs this browser in with the secret of the link, which stays out of addresses and logs.
import { setHTML } from "./html.js";

const state = document.getElementById("state");
const link = location.hash.slice(1);
const CONFLICT = 409;
history.replaceState(null, "", location.pathname);

const WAIT_MILLISECONDS = 1000;

async function signIn(instead = false) {
  state.textContent = "Signing in …";
  try {
    const answer = await fetch("/in", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/html;part" },
      body: JSON.stringify({ link, instead }),
    });
    if (answer.ok) return location.replace("/");
    setHTML(state, await answer.text());
    if (answer.status === CONFLICT) waitFor(() => signIn(true));
  } catch {
    state.textContent = "The server does not answer. Open the link again.";
  }
}

// Two places, and not at once: a page can have somebody click at one place, again and again, before it leads here.
function waitFor(work) {
  const sure = document.getElementById("sure");
  const go = document.getElementById("go");
  sure.disabled = true;
  setTimeout(() => (sure.disabled = false), WAIT_MILLISECONDS);
  sure.addEventListener("change", () => (go.disabled = !sure.checked));
  go.addEventListener("click", work);
}

// Another page has led here, perhaps to sign somebody in as the one who wrote it; or a browser that does not say so.
if (link && "asks" in state.dataset) {
  document.getElementById("ask").hidden = false;
  document.getElementById("lacks").hidden = true;
  waitFor(() => signIn());
} else if (link) await signIn();
