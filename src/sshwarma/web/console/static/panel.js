// Panels of a room: fetched beside the log, and again when what they show has changed.
import { fetchPart } from "./act.js";
import { setHTML } from "./html.js";

const main = document.getElementById("main");
const panel = document.getElementById("panel");
const tabs = document.getElementById("tabs");
const room = document.getElementById("log").dataset.path;
const SETTLE_MILLISECONDS = 300;
let shown = panel.hidden ? "" : location.pathname + location.search;
let asked;
let leaving; // for another panel, which no refresh of this one may stop

const isPanelPath = (path) => path.startsWith(`${room}/`) && !path.startsWith(`${room}/row/`);

function mark() {
  const name = shown.slice(room.length + 1).split(/[/?]/)[0];
  for (const link of tabs.querySelectorAll("a")) {
    const isIt = name && link.pathname === `${room}/${name}`;
    if (isIt) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// What a form has answered stays beside it when the panel is drawn again.
function listAnswers() {
  const places = [...panel.querySelectorAll("form[data-part]")].map((form) => document.getElementById(form.dataset.part));
  places.push(...panel.querySelectorAll("[data-kept]"));
  return [...new Set(places)].filter((one) => one && panel.contains(one)).map((one) => [one.id, [...one.childNodes]]);
}

let isPressed = false; // a pressed button must be there when it is released
for (const name of ["pointerdown", "pointerup", "pointercancel"]) addEventListener(name, () => (isPressed = name === "pointerdown"), true);

const TYPED = "textarea, input:not([type=checkbox], [data-filter]), select, [contenteditable=true]";
const isTyping = () => panel.contains(document.activeElement) && document.activeElement.matches(TYPED);
const isBusy = () => panel.querySelector("form[aria-busy=true]") !== null;
// The field behind an editor stands for what has the focus there.
function findFocused() {
  const one = document.activeElement;
  return panel.contains(one) ? (one.closest(".editor")?.previousElementSibling ?? one).id : "";
}

function focusAgain(id) {
  const field = id && document.getElementById(id);
  if (!field) return;
  if ("language" in field.dataset) field.autofocus = true; // its editor is made once the panel is loaded
  else field.focus();
}

// Where one goes on once something is done; on a phone the keyboard would cover what it has led to.
function focusPrompt() {
  document.getElementById(matchMedia("(pointer: coarse)").matches ? "log" : "text").focus();
}

const mayLeave = () => !panel.querySelector("[data-unsaved]") || confirm("Something here is not saved yet. Leave it?");

// Loaded again, a panel keeps its place and answers; one that nobody asked for waits for who types or presses.
export async function load(path, { push = true, isAgain = false, isAsked = true } = {}) {
  if (isAgain && leaving) return;
  if (!isAgain && !mayLeave()) return push || history.pushState({}, "", shown);
  asked?.abort();
  const mine = (asked = new AbortController());
  if (!isAgain) {
    leaving = mine;
    panel.setAttribute("aria-busy", "true");
  }
  try {
    const answer = await fetchPart(path, { signal: mine.signal, isItself: isAgain });
    const html = await answer.text();
    if (isAgain && !answer.ok) return; // the next change asks again
    if (mine.signal.aborted || (isAgain && panel.querySelector("[data-unsaved], [data-still]"))) return;
    // The answer of a form may be on its way into this panel.
    if (isAgain && (isBusy() || (!isAsked && (isPressed || isTyping())))) return refresh();
    const top = panel.scrollTop;
    const focused = isAgain ? findFocused() : "";
    const wereOpen = isAgain ? [...panel.querySelectorAll("details[id]")].map((one) => [one.id, one.open]) : [];
    const said = isAgain ? listAnswers() : [];
    setHTML(panel, html);
    for (const [id, isOpen] of wereOpen) document.getElementById(id)?.toggleAttribute("open", isOpen);
    for (const [id, nodes] of said) if (nodes.length) document.getElementById(id)?.replaceChildren(...nodes);
    if (isAgain) panel.scrollTop = top;
    focusAgain(focused);
    panel.hidden = false;
    main.classList.add("with-panel");
    shown = path;
    mark();
    if (push) history.pushState({}, "", path);
    if (!isAgain) {
      panel.scrollTop = 0;
      panel.focus();
    }
    panel.dispatchEvent(new CustomEvent("loaded", { bubbles: true }));
  } catch (error) {
    if (error.name !== "AbortError") panel.textContent = "The server does not answer.";
  } finally {
    if (leaving === mine) leaving = undefined;
    if (asked === mine) panel.removeAttribute("aria-busy");
  }
}

function close(push = true) {
  if (!mayLeave()) return push || history.pushState({}, "", shown);
  panel.replaceChildren();
  panel.hidden = true;
  main.classList.remove("with-panel");
  shown = "";
  mark();
  if (push) history.pushState({}, "", room);
  if (document.activeElement === document.body || [tabs, panel].some((one) => one.contains(document.activeElement))) focusPrompt();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || "whole" in link.dataset) return;
  if (link.hash && link.pathname === location.pathname) return; // to a place in this panel
  if (isPanelPath(link.pathname)) {
    event.preventDefault();
    load(link.pathname + link.search);
  } else if (link.classList.contains("back") && shown) {
    event.preventDefault();
    close();
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!("panel" in form.dataset)) return;
  event.preventDefault();
  document.activeElement.blur();
  load(`${new URL(form.action).pathname}?${new URLSearchParams(new FormData(form))}`);
});

addEventListener("popstate", () => {
  if (isPanelPath(location.pathname)) load(location.pathname + location.search, { push: false });
  else if (location.pathname === room) close(false);
  else location.reload();
});

// What has changed is fetched once things have settled; never over what somebody types.
let waiting;
export function refresh() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    if (leaving || isBusy() || isPressed || isTyping()) return refresh();
    if (shown && !panel.querySelector("[data-unsaved], [data-still]")) load(shown, { push: false, isAgain: true, isAsked: false });
  }, SETTLE_MILLISECONDS);
}

const questions = document.getElementById("questions");
let asksAgain;

// The keys of who types a reason as others answer must not become a line that is said.
function removeCard(card) {
  const hadFocus = card.contains(document.activeElement);
  const isMine = card.querySelector("form[aria-busy=true]") !== null;
  card.remove();
  if (hadFocus && isMine) focusPrompt();
  else if (hadFocus) document.getElementById("log").focus();
}

// What somebody types as a reason stays: a card that is there already is left as it is.
async function askQuestions() {
  const answer = await fetchPart(`${room}/questions`, { isItself: true });
  if (!answer.ok) return;
  const found = document.createElement("div");
  setHTML(found, await answer.text());
  const key = (card) => card.getAttribute("aria-labelledby");
  const wanted = new Map([...found.children].map((card) => [key(card), card]));
  for (const card of [...questions.children]) if (!wanted.delete(key(card))) removeCard(card);
  questions.append(...wanted.values());
}

document.addEventListener("stale", ({ detail }) => {
  if (detail === "questions") {
    clearTimeout(asksAgain);
    asksAgain = setTimeout(() => askQuestions().catch(() => {}), SETTLE_MILLISECONDS / 3);
  }
  const wanted = panel.querySelector("[data-stale]")?.dataset.stale.split(" ") ?? [];
  if (wanted.includes(detail)) refresh();
});
document.addEventListener("acted", ({ target }) => {
  if (panel.contains(target)) "stays" in target.dataset || refresh();
  else if (questions.contains(target)) questions.contains(document.activeElement) && focusPrompt();
  else if (target.classList.contains("draft-form")) target.remove(); // it is stored
});
