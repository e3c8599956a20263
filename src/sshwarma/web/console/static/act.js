// Forms and links whose answer is put into the page: a refused form keeps what was typed.
import { dropUnsafeLinks, setHTML } from "./html.js";

dropUnsafeLinks(document);

// What a page asks by itself is no use of the session: one that nobody uses ends.
export async function fetchPart(address, { isItself = false, ...options } = {}) {
  const headers = { Accept: "text/html;part", ...(isItself && { "Sshwarma-Itself": "1" }) };
  const answer = await fetch(address, { ...options, headers });
  if (answer.status === 401) location.reload();
  return answer;
}

// A refused line is there again, unless something else was typed meanwhile.
function putBack(form, fields) {
  if (!("parallel" in form.dataset)) return;
  for (const [name, value] of fields) if (!form.elements[name].value) form.elements[name].value = value;
  form.dispatchEvent(new CustomEvent("putback"));
}

const write = (fields) => JSON.stringify([...fields].filter(([, value]) => typeof value === "string"));

export async function act(form) {
  const place = document.getElementById(form.dataset.part);
  const hasFile = form.enctype === "multipart/form-data";
  const fields = new FormData(form);
  const sent = write(fields);
  form.setAttribute("aria-busy", "true");
  if ("parallel" in form.dataset) form.reset();
  try {
    const answer = await fetchPart(form.action, { method: "POST", body: hasFile ? fields : new URLSearchParams(fields) });
    setHTML(place, await answer.text());
    const path = answer.headers.get("Sshwarma-Path");
    if (path) location.assign(path);
    if (!answer.ok) putBack(form, fields);
    if (answer.ok) {
      if (!("keeps" in form.dataset) && write(new FormData(form)) === sent) form.reset();
      form.dispatchEvent(new CustomEvent("acted", { bubbles: true }));
      if (form.dataset.leads) location.assign(form.dataset.leads);
    }
  } catch {
    putBack(form, fields);
    place.textContent = "The server does not answer. What you typed is still there.";
  } finally {
    form.removeAttribute("aria-busy");
    if (document.activeElement === document.body) form.querySelector("#text")?.focus();
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.getAttribute("action") === "/out") sessionStorage.clear(); // drafts and lines are nobody else's
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return event.preventDefault();
  if (!form.dataset.part) return;
  event.preventDefault();
  // A line may wait for minutes, as for an approval: others can be sent meanwhile.
  if ("parallel" in form.dataset || form.getAttribute("aria-busy") !== "true") act(form);
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
      if (target.closest("#log")) target.scrollIntoView({ block: "nearest" });
    } catch {
      place.textContent = "The server does not answer.";
      delete place.dataset.isThere;
    }
  },
  true,
);
