// The prompt of a room: it sends, completes, and remembers what was typed.
import { fetchPart } from "./act.js";

const text = document.getElementById("text");
const form = text.form;
const room = document.getElementById("log").dataset.path;
const draftKey = `draft ${room}`;
const historyKey = "typed lines";
const MAX_LINES = 8;
const MAX_HISTORY = 200;
const WAIT_MILLISECONDS = 120;
const list = document.createElement("ul");
let options = [];
let chosen = -1;
let place = -1; // in the history; -1 is what is being typed
let unfinished = "";
let asked;
let timer;

list.id = "completions";
list.setAttribute("role", "listbox");
list.setAttribute("aria-label", "Completions");
list.hidden = true;
form.insertBefore(list, text);
text.setAttribute("aria-controls", "completions");
text.setAttribute("aria-haspopup", "listbox");
text.setAttribute("aria-autocomplete", "list");
const said = Object.assign(document.createElement("span"), { className: "hidden-text" });
said.setAttribute("role", "status");
form.append(said);

const readHistory = () => JSON.parse(sessionStorage.getItem(historyKey) ?? "[]");

function fit() {
  text.rows = Math.min(MAX_LINES, Math.max(2, text.value.split("\n").length));
}

function put(value) {
  text.value = value;
  text.setSelectionRange(value.length, value.length);
  remember();
}

function remember() {
  sessionStorage.setItem(draftKey, text.value);
  fit();
}

function close() {
  clearTimeout(timer);
  asked?.abort();
  options = [];
  chosen = -1;
  list.hidden = true;
  said.textContent = "";
  text.removeAttribute("aria-activedescendant");
}

function choose(number) {
  chosen = (number + options.length) % options.length;
  [...list.children].forEach((item, index) => item.setAttribute("aria-selected", index === chosen));
  text.setAttribute("aria-activedescendant", `completion-${chosen}`);
  list.children[chosen].scrollIntoView({ block: "nearest" });
}

function take(option) {
  const end = text.selectionStart;
  const after = text.value.slice(end);
  const written = option.text + (option.space && !after.startsWith(" ") ? " " : "");
  text.setRangeText(written, option.start, end, "end");
  close();
  remember();
  if (!option.space) ask(false);
}

async function ask(takesOnly) {
  asked?.abort();
  const mine = (asked = new AbortController());
  const value = text.value;
  const cursor = text.selectionStart;
  const query = new URLSearchParams({ text: value.slice(0, cursor), rest: value.slice(cursor, cursor + 1) });
  try {
    const answer = await fetchPart(`${room}/complete?${query}`, { signal: mine.signal });
    const found = answer.ok ? await answer.json() : [];
    if (mine.signal.aborted || text.value !== value) return;
    if (takesOnly && found.length === 1) return take(found[0]);
    close();
    options = found;
    list.replaceChildren(
      ...found.map((option, index) => {
        const item = document.createElement("li");
        item.id = `completion-${index}`;
        item.setAttribute("role", "option");
        item.append(Object.assign(document.createElement("b"), { textContent: option.shown }), ` ${option.note}`);
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(options[index]);
        });
        return item;
      }),
    );
    list.hidden = !found.length;
    said.textContent = found.length ? `${found.length} completions` : "";
    if (takesOnly && found.length) choose(0);
  } catch (error) {
    if (error.name !== "AbortError") close();
  }
}

const isWordToComplete = () => {
  const before = text.value.slice(0, text.selectionStart);
  return /^\/\S*$/.test(before) || (/^\//.test(before) && !before.includes("\n")) || /(^|\s)@\S*$/.test(before);
};

function moveInHistory(step) {
  const lines = readHistory();
  const next = Math.max(-1, Math.min(lines.length - 1, place + step));
  if (next === place) return;
  if (place === -1) unfinished = text.value;
  place = next;
  put(place === -1 ? unfinished : lines[place]);
}

text.addEventListener("input", () => {
  place = -1;
  remember();
  clearTimeout(timer);
  if (isWordToComplete()) timer = setTimeout(ask, WAIT_MILLISECONDS, false);
  else close();
});

text.addEventListener("keydown", (event) => {
  if (event.isComposing || event.keyCode === 229) return;
  const isOpen = !list.hidden;
  const before = text.value.slice(0, text.selectionStart);
  const after = text.value.slice(text.selectionEnd);
  switch (event.key) {
    case "Tab":
      if (event.shiftKey || (!isOpen && !isWordToComplete())) return;
      event.preventDefault();
      if (isOpen) take(options[Math.max(0, chosen)]);
      else ask(true);
      return;
    case "Escape":
      if (isOpen) event.preventDefault();
      close();
      return;
    case "ArrowDown":
      if (isOpen) choose(chosen + 1);
      else if (!after.includes("\n") && place >= 0) moveInHistory(-1);
      else return;
      event.preventDefault();
      return;
    case "ArrowUp":
      if (isOpen) choose(chosen < 0 ? options.length - 1 : chosen - 1);
      else if (!before.includes("\n")) moveInHistory(1);
      else return;
      event.preventDefault();
      return;
    case "Enter":
      if (isOpen && chosen >= 0) {
        event.preventDefault();
        take(options[chosen]);
      } else if (!event.shiftKey && !matchMedia("(pointer: coarse)").matches) {
        event.preventDefault();
        close();
        if (text.value.trim()) form.requestSubmit();
      }
  }
});

text.addEventListener("blur", () => setTimeout(close, 150));

form.addEventListener("submit", () => {
  close();
  const lines = [text.value, ...readHistory().filter((line) => line !== text.value)].slice(0, MAX_HISTORY);
  sessionStorage.setItem(historyKey, JSON.stringify(lines));
  place = -1;
  setTimeout(remember); // act.js has emptied it then
});
document.getElementById("clear").addEventListener("click", () => {
  document.getElementById("answer").replaceChildren();
  text.focus();
});
form.addEventListener("putback", remember);

const kept = sessionStorage.getItem(draftKey);
if (kept && !text.value) put(kept);
