// The log of a room: rows and answers as they come, and again after a cut.
import { endSession, fetchPart } from "./act.js";
import { setHTML } from "./html.js";

const log = document.getElementById("log");
const state = document.getElementById("state");
const here = document.getElementById("here");
const more = document.getElementById("more");
const stop = document.getElementById("stop");
const NEAR_END_PIXELS = 40;
const MAX_ROWS = 500;
const TOO_MANY_MILLISECONDS = 10_000;
const KINDS = ["here", "tools", "files", "memory", "turns", "calls", "questions"];
const drafts = new Map();
let wasOpen = false; // what happened while it was not is not told
let after = Number(log.dataset.after);
let wait = 250;
let unseen = 0;

const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PIXELS;

// Whether the view follows the end. Only its reader decides that: neither rows that come, nor a panel or a card
// that makes the log lower, nor an answer whose height is known once it is drawn.
let follows = true;
let pinned = -1; // where the log was put last
const heights = new ResizeObserver(() => settle());

function toEnd() {
  follows = true;
  unseen = 0;
  more.hidden = true;
  settle();
}

function settle() {
  log.style.overflowAnchor = follows ? "none" : "auto";
  if (!follows) return;
  log.scrollTop = log.scrollHeight;
  pinned = log.scrollTop;
}

function add(element, isRow) {
  log.append(element);
  heights.observe(element);
  while (log.children.length > MAX_ROWS) {
    heights.unobserve(log.firstElementChild);
    log.firstElementChild.remove();
  }
  settle();
  if (!follows && isRow) {
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
  set({ turn, row, who, isModel, text, waits }) {
    const key = `${turn} ${row}`;
    let draft = drafts.get(key);
    if (!draft) {
      draft = document.createElement("div");
      draft.className = "row draft";
      draft.setAttribute("aria-hidden", "true");
      draft.append(Object.assign(document.createElement("span"), { className: isModel ? "s-model" : "s-name", textContent: `${who}: ` }));
      draft.append(document.createTextNode(""), Object.assign(document.createElement("span"), { className: "s-dim" }));
      draft.dataset.turn = turn;
      draft.dataset.row = row;
      drafts.set(key, draft);
      stop.hidden = false;
      state.textContent = isModel ? `${who} is answering.` : `${who} is running a tool.`;
      add(draft, false);
    }
    draft.childNodes[1].data = text;
    draft.childNodes[2].textContent = waits && ` ${waits} …`;
    settle();
  },
  add(message) {
    const before = drafts.get(`${message.turn} ${message.row}`)?.childNodes[1].data ?? "";
    receive.set({ ...message, text: before + message.text });
  },
  // The part of an answer that a row has now ends; what was begun after that row goes on.
  end({ turn, row }) {
    for (const [key, draft] of drafts) {
      if (draft.dataset.turn !== turn || (row !== null && Number(draft.dataset.row) >= row)) continue;
      draft.remove();
      drafts.delete(key);
    }
    settle();
    if (!drafts.size) state.textContent = "";
    stop.hidden = !drafts.size;
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
  address.search = new URLSearchParams({ in: log.dataset.room, after, owner: document.documentElement.dataset.owner });
  const socket = new WebSocket(address);
  socket.onopen = () => {
    wait = 250;
    state.textContent = "";
    for (const draft of drafts.values()) draft.remove();
    drafts.clear();
    stop.hidden = true;
    if (wasOpen) for (const what of KINDS) receive.stale({ what });
    wasOpen = true;
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    receive[message.type]?.(message);
  };
  socket.onclose = ({ code, reason }) => {
    if (code === 4401) {
      state.textContent = "Signed out: nothing new comes here.";
      document.addEventListener("signedin", open, { once: true });
      endSession();
    } else if (code === 4403) state.textContent = reason;
    else if (code === 4429) {
      state.textContent = `${reason} This one is tried again, until another is closed.`;
      setTimeout(open, TOO_MANY_MILLISECONDS);
    }
    else {
      state.textContent = "Not connected. Trying again …";
      setTimeout(open, wait * (0.75 + Math.random() / 2));
      wait = Math.min(8000, 2 * wait);
    }
  };
}

more.addEventListener("click", toEnd);
log.addEventListener("scroll", () => {
  if (isAtEnd()) toEnd();
  else if (Math.abs(log.scrollTop - pinned) > 1) {
    follows = false;
    settle();
  }
});
document.getElementById("prompt").addEventListener("submit", toEnd); // one's own line is seen
heights.observe(log);
for (const row of log.children) heights.observe(row);
toEnd();
open();
