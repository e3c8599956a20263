// Pages of toolsets and servers: fetched again after each change, and while somebody looks at them.
import { endSession, fetchPart, owner } from "./act.js";
import { drawAgain, setHTML } from "./html.js";

const place = document.getElementById("managed");
const answer = document.getElementById("managed-answer");
const REFRESH_MILLISECONDS = 3000;
let shown = "";
let asked = 0; // how often, so that an answer that another one has overtaken is left alone
let isAsking = false;

async function refresh({ isForced = false } = {}) {
  // A question stays as it was read until it is answered.
  const isTyped = place.querySelector("[data-unsaved], [data-still]") || place.contains(document.activeElement) && document.activeElement.matches("textarea, input, select");
  if (!isForced && (isAsking || isTyped)) return;
  isAsking = true;
  const mine = ++asked;
  try {
    const found = await fetchPart(location.href, { isItself: !isForced });
    const html = await found.text();
    // What somebody typed or sent while this was on its way stays: the next refresh draws both.
    if (mine !== asked || place.querySelector("form[data-unsaved], form[aria-busy=true]")) return;
    if (found.status === 404) {
      for (const button of place.querySelectorAll("button")) button.disabled = true;
      if (!isForced) setHTML(answer, html);
    }
    if (!found.ok || (html === shown && !isForced)) return;
    shown = html;
    drawAgain(place, html);
  } catch {
    // The next one may come.
  } finally {
    if (mine === asked) isAsking = false;
  }
}

place.addEventListener("acted", ({ target }) => {
  delete target.dataset.unsaved;
  if (place.querySelector("[data-still]")) history.replaceState({}, "", target.elements.back.value); // it is answered
  if (!place.querySelector("form[data-unsaved]")) refresh({ isForced: true }); // what is typed elsewhere stays
});
place.addEventListener("input", ({ target }) => (target.form.dataset.unsaved = ""));
setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_MILLISECONDS);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());

// The import: only XMLHttpRequest says how far an upload is.
function upload(form) {
  const progress = document.getElementById("import-progress");
  const state = document.getElementById("import-state");
  const request = new XMLHttpRequest();
  form.setAttribute("aria-busy", "true");
  answer.replaceChildren();
  progress.hidden = false;
  progress.value = 0;
  form.scrollIntoView({ block: "end" });
  const end = () => {
    form.removeAttribute("aria-busy");
    progress.hidden = true;
    state.textContent = "";
  };
  request.upload.onprogress = ({ loaded, total }) => {
    progress.value = total ? (100 * loaded) / total : 0;
    state.textContent = loaded < total ? `${Math.floor(progress.value)} % is sent.` : "All is sent. The server reads it …";
  };
  request.onload = () => {
    if (request.status === 401) endSession();
    end();
    setHTML(answer, request.responseText);
    answer.scrollIntoView({ block: "nearest" });
    if (request.status !== 200) return;
    form.dispatchEvent(new CustomEvent("acted", { bubbles: true }));
  };
  request.onerror = () => {
    end();
    answer.textContent = "The upload broke off. Nothing was installed.";
  };
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/html;part");
  request.setRequestHeader("Sshwarma-Owner", owner);
  request.send(new FormData(form));
}

place.addEventListener("submit", (event) => {
  if (event.target.id !== "import") return;
  event.preventDefault();
  if (event.target.getAttribute("aria-busy") !== "true") upload(event.target);
});

const findDrop = ({ target }) => target.closest?.(".drop");
place.addEventListener("dragover", (event) => {
  if (!findDrop(event)) return;
  event.preventDefault();
  findDrop(event).classList.add("over");
});
place.addEventListener("dragleave", (event) => findDrop(event)?.classList.remove("over"));
place.addEventListener("drop", (event) => {
  const drop = findDrop(event);
  if (!drop) return;
  event.preventDefault();
  drop.classList.remove("over");
  const input = drop.querySelector("input");
  input.files = event.dataTransfer.files;
  input.dispatchEvent(new Event("input", { bubbles: true }));
});
