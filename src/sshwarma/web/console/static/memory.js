// Windows that show the value of a key: one for each memory, and both may be open.
import { fetchPart } from "./act.js";
import { setHTML } from "./html.js";

const windows = new Map();

function find(scope) {
  if (windows.has(scope)) return windows.get(scope);
  const dialog = document.createElement("dialog");
  dialog.className = "value-window";
  dialog.id = `memory-${scope}`;
  const title = Object.assign(document.createElement("h2"), { id: `memory-${scope}-title` });
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
  const body = document.createElement("div");
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.append(title, body, close);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    dialog.close();
  });
  document.body.append(dialog);
  const found = { dialog, title, body, close, key: null };
  windows.set(scope, found);
  return found;
}

async function view({ view: scope, key, src }) {
  const shown = find(scope);
  shown.key = key;
  shown.src = src;
  shown.title.textContent = `[${scope}] ${key}`;
  shown.body.textContent = "Loading …";
  if (!shown.dialog.open) shown.dialog.show();
  shown.close.focus();
  let html;
  try {
    html = await (await fetchPart(src)).text();
  } catch {
    html = "The server does not answer.";
  }
  if (shown.key === key) setHTML(shown.body, html); // an answer for another key is ignored
}

// A value that somebody sets meanwhile is shown at once.
document.addEventListener("stale", async ({ detail }) => {
  for (const shown of detail === "memory" ? windows.values() : []) {
    if (!shown.dialog.open) continue;
    const { key, src } = shown;
    const html = await fetchPart(src, { isItself: true }).then((answer) => answer.text()).catch(() => "");
    if (html && shown.key === key) setHTML(shown.body, html);
  }
});

document.addEventListener(
  "click",
  (event) => {
    const link = event.target.closest?.("[data-view]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    view(link.dataset);
  },
  true,
);
