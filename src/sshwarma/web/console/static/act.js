// Forms and links whose answer is put into the page: a refused form keeps what was typed.
import { setHTML } from "./html.js";

// What a page asks by itself is no use of the session: one that nobody uses ends.
export async function fetchPart(address, { isItself = false, ...options } = {}) {
  const headers = { Accept: "text/html;part", ...(isItself && { "Sshwarma-Itself": "1" }) };
  const answer = await fetch(address, { ...options, headers });
  if (answer.status === 401) location.reload();
  return answer;
}

export async function act(form) {
  const place = document.getElementById(form.dataset.part);
  const hasFile = form.enctype === "multipart/form-data";
  form.setAttribute("aria-busy", "true");
  try {
    const fields = new FormData(form);
    const answer = await fetchPart(form.action, { method: "POST", body: hasFile ? fields : new URLSearchParams(fields) });
    setHTML(place, await answer.text());
    const path = answer.headers.get("Sshwarma-Path");
    if (path) location.assign(path);
    if (answer.ok) {
      if (!("keeps" in form.dataset)) form.reset();
      form.dispatchEvent(new CustomEvent("acted", { bubbles: true }));
    }
  } catch {
    place.textContent = "The server does not answer. What you typed is still there.";
  } finally {
    form.removeAttribute("aria-busy");
    form.querySelector("#text")?.focus();
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return event.preventDefault();
  if (!form.dataset.part) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true") act(form);
});

// Parts that are fetched when they are first opened.
document.addEventListener(
  "toggle",
  async ({ target }) => {
    const place = target.querySelector?.(":scope > [data-src]");
    if (!target.open || !place || place.dataset.isThere) return;
    place.dataset.isThere = "1";
    try {
      setHTML(place, await (await fetchPart(place.dataset.src)).text());
    } catch {
      place.textContent = "The server does not answer.";
      delete place.dataset.isThere;
    }
  },
  true,
);
