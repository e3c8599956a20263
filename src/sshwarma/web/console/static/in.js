// Signs this browser in with the secret of the link, which stays out of addresses and logs.
import { setHTML } from "./html.js";

const state = document.getElementById("state");
const link = location.hash.slice(1);
const CONFLICT = 409;
history.replaceState(null, "", location.pathname);

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
    if (answer.status === CONFLICT) document.getElementById("instead").addEventListener("click", () => signIn(true));
  } catch {
    state.textContent = "The server does not answer. Open the link again.";
  }
}

// Another page has led here: perhaps to sign somebody in as the one who wrote it.
function ask() {
  const words = "Another page led to this link. Sign in only if you asked for the link yourself: who asked for it has then what is typed here.";
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Sign in" });
  button.addEventListener("click", () => signIn());
  state.replaceChildren(Object.assign(document.createElement("p"), { textContent: words }), button);
}

if (link) await ("asks" in state.dataset ? ask() : signIn());
