// Forms and links whose answer is put into the page: a refused form keeps what was typed.
import { dropUnsafeLinks, setHTML } from "./html.js";

dropUnsafeLinks(document);

const SIGNED_OUT = "This browser was signed out. Your text is still on this page: copy it, or sign in in another tab (ssh HOST web), and save again.";
const TEXTS = "form[method=post] :is(textarea, input:not([type=hidden], [type=checkbox], [type=radio], [type=file]))";
export const owner = encodeURIComponent(document.documentElement.dataset.owner ?? "");
const findBar = () => document.getElementById("signed-out");

// A field gives its default without some line ends. One behind an editor is hidden: its form says what is unsaved.
function isTyped(field) {
  const [from, to] = field.matches("textarea") ? [/\r\n?/g, "\n"] : [/[\r\n]/g, ""];
  return !field.hidden && field.value !== field.defaultValue.replace(from, to);
}

// A line on its way is in no field: if it is refused, it comes back.
const hasUnsaved = () => document.querySelector("form[data-unsaved], form[aria-busy=true]") !== null || [...document.querySelectorAll(TEXTS)].some(isTyped);

// The session of this browser has ended. A text that is not saved stays: who signs in in another tab can save it.
export function endSession() {
  if (!hasUnsaved()) return location.reload();
  if (findBar()) return;
  const bar = Object.assign(document.createElement("p"), { id: "signed-out", role: "alert", textContent: SIGNED_OUT });
  document.querySelector("header").before(bar);
}

// Tabs share the cookie: what succeeds again was asked after this browser was signed in again.
async function ask(address, { isItself = false, ...options } = {}) {
  const bar = findBar();
  const headers = { Accept: "text/html;part", "Sshwarma-Owner": owner, ...(isItself && { "Sshwarma-Itself": "1" }) };
  const answer = await fetch(address, { ...options, headers });
  if (answer.ok && bar?.isConnected) {
    bar.remove();
    document.dispatchEvent(new Event("signedin"));
  }
  return answer;
}

// What a page asks by itself is no use of the session: one that nobody uses ends.
export async function fetchPart(address, options) {
  const answer = await ask(address, options);
  if (answer.status === 401) endSession();
  return answer;
}

// A form that is sent as a page has no headers.
function addOwner(action) {
  const query = new URL(action).searchParams;
  query.set("owner", decodeURIComponent(owner));
  return query;
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
    const answer = await ask(form.action, { method: "POST", body: hasFile ? fields : new URLSearchParams(fields) });
    setHTML(place, await answer.text());
    const path = answer.headers.get("Sshwarma-Path");
    if (path) location.assign(path);
    if (!answer.ok) putBack(form, fields);
    if (answer.status === 401) {
      form.removeAttribute("aria-busy");
      endSession(); // its text is back
    }
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
  if (!form.dataset.part) {
    if (form.method === "post") form.action = Object.assign(new URL(form.action), { search: addOwner(form.action) });
    return;
  }
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
