// The log of a room: rows and answers as they come, and again after a cut.
import { fetchPart } from "./act.js";
import { setHTML } from "./html.js";

const log = document.getElementById("log");
const state = document.getElementById("state");
const here = document.getElementById("here");
const more = document.getElementById("more");
const NEAR_END_PIXELS = 40;
const MAX_ROWS = 500;
const drafts = new Map();
let after = Number(log.dataset.after);
let wait = 250;
let unseen = 0;

const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PIXELS;

function toEnd() {
  log.scrollTop = log.scrollHeight;
  unseen = 0;
  more.hidden = true;
}

function add(element, isRow) {
  const follows = isAtEnd();
  log.append(element);
  while (log.children.length > MAX_ROWS) log.firstElementChild.remove();
  if (follows) toEnd();
  else if (isRow) {
    unseen += 1;
    more.textContent = `${unseen} new ↓`;
    more.hidden = false;
  }
}

const receive = {
  row({ seq, html }) {
    after = seq;
    const element = document.createElement("div");
    element.className = "row";
    element.id = `row-${seq}`;
    setHTML(element, html);
    const link = Object.assign(document.createElement("a"), { className: "permalink", textContent: "#", href: `${log.dataset.path}/row/${seq}` });
    link.setAttribute("aria-label", `Link to row ${seq}`);
    element.append(link);
    add(element, true);
    for (const what of ["calls", "turns"]) receive.stale({ what });
  },
  gap({ from, to }) {
    const element = document.createElement("div");
    element.className = "row s-dim";
    element.textContent = `… ${to - from + 1} earlier lines are not shown.`;
    add(element, false);
  },
  set({ turn, who, text, waits }) {
    let draft = drafts.get(turn);
    if (!draft) {
      draft = document.createElement("div");
      draft.className = "row draft";
      draft.setAttribute("aria-hidden", "true");
      draft.append(Object.assign(document.createElement("span"), { className: "s-model", textContent: `${who}: ` }));
      draft.append(document.createTextNode(""), Object.assign(document.createElement("span"), { className: "s-dim" }));
      drafts.set(turn, draft);
      state.textContent = `${who} is answering.`;
      add(draft, false);
    }
    const follows = isAtEnd();
    draft.childNodes[1].data = text;
    draft.childNodes[2].textContent = waits && ` ${waits} …`;
    if (follows) toEnd();
  },
  add(message) {
    const before = drafts.get(message.turn)?.childNodes[1].data ?? "";
    receive.set({ ...message, text: before + message.text });
  },
  end({ turn }) {
    if (!drafts.has(turn)) return;
    drafts.get(turn).remove();
    drafts.delete(turn);
    state.textContent = "";
  },
  tell({ html, at }) {
    const element = Object.assign(document.createElement("div"), { className: "row" });
    setHTML(element, html);
    add(element, true);
    shownUntil = at;
    markRead();
  },
  stale({ what }) {
    document.dispatchEvent(new CustomEvent("stale", { detail: what }));
  },
  here({ names }) {
    here.textContent = names.join(", ");
  },
};

// A private message is read once it stands on a page that somebody sees.
let shownUntil = 0;
async function markRead() {
  if (!shownUntil || document.visibilityState !== "visible") return;
  const before = shownUntil;
  shownUntil = 0;
  await fetchPart("/messages/read", { method: "POST", body: new URLSearchParams({ before }), isItself: true }).catch(() => {});
}
document.addEventListener("visibilitychange", markRead);

function open() {
  const address = new URL("/live", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.search = new URLSearchParams({ in: log.dataset.room, after });
  const socket = new WebSocket(address);
  socket.onopen = () => {
    wait = 250;
    state.textContent = "";
    for (const turn of [...drafts.keys()]) receive.end({ turn });
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    receive[message.type]?.(message);
  };
  socket.onclose = ({ code, reason }) => {
    if (code === 4401) location.reload();
    else if (code === 4403 || code === 4429) state.textContent = reason;
    else {
      state.textContent = "Not connected. Trying again …";
      setTimeout(open, wait * (0.75 + Math.random() / 2));
      wait = Math.min(8000, 2 * wait);
    }
  };
}

more.addEventListener("click", toEnd);
log.addEventListener("scroll", () => isAtEnd() && toEnd());
toEnd();
open();
