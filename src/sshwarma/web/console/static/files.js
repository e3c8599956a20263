// The files of a room: filter, uploads with progress, and an editor that never loses a text.
import { endSession, fetchPart, owner } from "./act.js";
import { setHTML } from "./html.js";
import { load } from "./panel.js";

const panel = document.getElementById("panel");
const SMALL_UPDATE = 0.01;
const TOO_MANY_REQUESTS = 429;
const AGAIN_MILLISECONDS = 1000;
const MAX_TRIES = 30;

const answerPlace = () => document.getElementById("files-answer");
const editor = () => panel.querySelector("form.file-form");

// A form after which there is nothing more to show here: its answer goes along to another page.
document.addEventListener("acted", async ({ target }) => {
  if (!panel.contains(target)) return;
  if (target.matches("form.file-form")) return saved(target);
  if (target.dataset.leaves) await leaveFor(target.dataset.leaves);
});

async function leaveFor(path) {
  const nodes = [...answerPlace().childNodes];
  await load(path);
  // With its last file a folder is gone.
  if (!answerPlace()) await load(`${document.getElementById("log").dataset.path}/files`);
  answerPlace()?.replaceChildren(...nodes);
}

// The filter: at once for what is in the page; Enter asks the server, which knows all files.
panel.addEventListener("input", ({ target }) => {
  if (target.id === "files-match") filter(target.value.toLowerCase());
  else if (target.form?.matches(".file-form")) target.form.dataset.unsaved = "";
});

function filter(typed) {
  if (/[*?[]/.test(typed)) return;
  for (const link of panel.querySelectorAll(".tree li.file > a")) {
    link.parentElement.hidden = !link.dataset.path.toLowerCase().includes(typed);
  }
  for (const folder of [...panel.querySelectorAll(".tree details")].reverse()) {
    const hasAny = folder.querySelector("li.file:not([hidden])") !== null;
    folder.parentElement.hidden = !hasAny && typed !== "";
    if (hasAny && typed) folder.open = true;
  }
}

// The editor. What others do meanwhile is said, and is loaded only into an editor without changes.
async function saved(form) {
  const answer = answerPlace().querySelector("[data-version]");
  if (form.elements.content.value === form.dataset.sent) delete form.dataset.unsaved;
  const isUnsaved = "unsaved" in form.dataset;
  if (answer?.dataset.kept) return isUnsaved ? tellOfChange() : compareWith(answer);
  const joined = document.getElementById("file-joined");
  if (joined) joined.hidden = false;
  // With the text of others the base comes along. Before that, one's own must not count as made from it.
  if (answer?.dataset.now === "other") return isUnsaved ? tellOfChange() : loadAgain();
  if (answer) form.elements.base.value = answer.dataset.version;
  tellOfChange();
}

// The text was stored beside the file: its page shows both, so that it does not seem to be lost.
async function compareWith(answer) {
  await leaveFor(answer.dataset.kept);
  answer.querySelector("[data-once]")?.remove(); // it leads here
  answer.focus();
}

async function loadAgain() {
  document.getElementById("file-changed").replaceChildren();
  const isJoined = document.getElementById("file-joined")?.hidden === false;
  await load(location.pathname + location.search, { push: false, isAgain: true });
  document.getElementById("file-joined")?.toggleAttribute("hidden", !isJoined);
}

async function tellOfChange() {
  const form = editor();
  const base = form?.elements.base.value;
  if (!base || form.getAttribute("aria-busy") === "true") return;
  try {
    const query = new URLSearchParams({ "changed-since": base });
    const answer = await fetchPart(`${document.getElementById("file-editor").dataset.changes}?${query}`, { isItself: true });
    if (form !== editor() || base !== form.elements.base.value) return;
    if (answer.status !== 200) return document.getElementById("file-changed").replaceChildren();
    const said = document.createElement("div");
    setHTML(said, await answer.text());
    const isThere = said.querySelector("[data-change]")?.dataset.change !== "removed";
    if (!("unsaved" in form.dataset) && isThere) loadAgain();
    else document.getElementById("file-changed").replaceChildren(said);
  } catch {
    // The next change tells of it, and saving loses nothing.
  }
}

let waiting;
document.addEventListener("stale", ({ detail }) => {
  if (detail !== "files" || !editor()) return;
  clearTimeout(waiting);
  waiting = setTimeout(tellOfChange, 300);
});

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "s" || !editor()?.contains(event.target)) return;
  event.preventDefault();
  editor().requestSubmit();
});

addEventListener("beforeunload", (event) => {
  if (editor() && "unsaved" in editor().dataset) event.preventDefault();
});

// Uploads: one request a file, so that each has its own progress and its own refusal.
async function upload(form, files) {
  const list = document.createElement("ul");
  list.className = "uploads";
  document.getElementById("files-uploads").replaceChildren(list);
  list.dataset.unsaved = ""; // so that no change of the files draws this panel again meanwhile
  let done = 0;
  for (const file of files) {
    const item = list.appendChild(document.createElement("li"));
    let status = await send(form, file, item);
    for (let tries = 1; status === TOO_MANY_REQUESTS && tries < MAX_TRIES; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
      status = await send(form, file, item);
    }
    if (status === 200) done += 1;
  }
  delete list.dataset.unsaved;
  if (!list.isConnected) return; // somebody has gone to another panel
  answerPlace().textContent = `${done} of ${files.length} ${files.length === 1 ? "file" : "files"} uploaded.`;
  if (done === files.length) form.reset();
  const refused = [...list.children].filter((one) => one.dataset.refused);
  list.replaceChildren(...refused);
  const place = list.parentElement;
  await load(location.pathname + location.search, { push: false, isAgain: true });
  if (refused.length) document.getElementById(place.id)?.replaceChildren(list);
}

// Send a file; what became of it is said in the item of a list. Returns the status of HTTP.
function send(form, file, item) {
  const bar = Object.assign(document.createElement("progress"), { max: 1, value: 0 });
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  const said = document.createElement("span");
  item.replaceChildren(Object.assign(document.createElement("span"), { textContent: file.name }), bar, said);
  delete item.dataset.refused;
  const fields = new FormData();
  fields.append("path", form.dataset.folder + file.name);
  fields.append("upload", file, file.name);
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "text/html;part");
    request.setRequestHeader("Sshwarma-Owner", owner);
    request.upload.onprogress = ({ loaded, total }) => {
      if (loaded / total - bar.value > SMALL_UPDATE || loaded === total) {
        bar.value = loaded / total;
        said.textContent = `${Math.floor((100 * loaded) / total)} %`;
      }
    };
    request.onload = () => {
      const isDone = request.status === 200;
      if (request.status === 401) endSession();
      if (isDone) said.textContent = "stored";
      else {
        item.dataset.refused = "1";
        bar.remove();
        setHTML(said, request.responseText);
      }
      resolve(request.status);
    };
    request.onerror = () => {
      item.dataset.refused = "1";
      bar.remove();
      said.textContent = "The server does not answer, or has refused the file while it came.";
      resolve(0);
    };
    request.send(fields);
  });
}

// Once a text is stored, only what somebody has typed meanwhile is unsaved.
document.addEventListener(
  "submit",
  ({ target }) => {
    if (target.matches("form.file-form")) setTimeout(() => (target.dataset.sent = target.elements.content.value));
  },
  true,
);

// Before act.js hears of it: a form of several files is not one request.
document.addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (!form.matches("form.upload")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    upload(form, [...form.elements.upload.files]);
  },
  true,
);

const hasFiles = (event) => event.dataTransfer?.types.includes("Files") && panel.querySelector("[data-drops=yes]");
for (const type of ["dragenter", "dragover"]) {
  panel.addEventListener(type, (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    panel.classList.add("dropping");
  });
}
panel.addEventListener("dragleave", (event) => {
  if (!panel.contains(event.relatedTarget)) panel.classList.remove("dropping");
});
panel.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  panel.classList.remove("dropping");
  const form = panel.querySelector("form.upload");
  form.closest("details").open = true;
  upload(form, [...event.dataTransfer.files]);
});

function prepare() {
  const input = document.getElementById("files-upload");
  if (input) input.multiple = true;
  for (const one of panel.querySelectorAll("[data-with-script]")) one.hidden = false;
}
panel.addEventListener("loaded", prepare);
prepare();
