// Signs this browser in with the secret of the link, which stays out of addresses and logs.
import { setHTML } from "./html.js";

const state = document.getElementById("state");
const link = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

if (link) {
  state.textContent = "Signing in …";
  try {
    const answer = await fetch("/in", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/html;part" },
      body: JSON.stringify({ link }),
    });
    if (answer.ok) location.replace("/");
    else setHTML(state, await answer.text());
  } catch {
    state.textContent = "The server does not answer. Open the link again.";
  }
}
