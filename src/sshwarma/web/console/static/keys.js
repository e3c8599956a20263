// Keys for those who go without a mouse. What somebody types is never a key.
const PANELS = { r: "", h: "/here", t: "/tools", f: "/files", m: "/memory", d: "/debug" };
const room = document.getElementById("log")?.dataset.path;
const OFF_KEY = "single keys are off";
let isGoing = false;

// What again.js added is no part of the address.
const query = new URLSearchParams(location.search);
if (query.has("again")) {
  query.delete("again");
  history.replaceState(history.state, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
}

const isPanelOpen = () => document.getElementById("panel")?.hidden === false;
const regions = () => [...document.querySelectorAll("header, #log, #prompt textarea, #panel:not([hidden]), #main, #terminal")];

function toNextRegion() {
  const all = regions();
  const now = all.findLastIndex((one) => one.contains(document.activeElement));
  const next = all[(now + 1) % all.length];
  if (!next.matches("[tabindex], textarea")) next.tabIndex = -1;
  next.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "F6") {
    event.preventDefault();
    return toNextRegion();
  }
  if (event.ctrlKey && event.key === "k") {
    event.preventDefault();
    return location.assign(document.querySelector("a.menu")?.href ?? "/go"); // which stays in this room
  }
  const isTyped = event.target.matches?.("input, textarea, select, [contenteditable]") || event.target.closest?.("#terminal, .cm-editor");
  const isWithAnother = event.ctrlKey || event.metaKey || event.altKey;
  if (isTyped || (isWithAnother && !event.getModifierState("AltGraph"))) return;
  if (event.key.length === 1 && localStorage.getItem(OFF_KEY)) return; // who speaks to the browser has them off
  if (isGoing) {
    isGoing = false;
    if (room && event.key in PANELS && (event.key !== "r" || isPanelOpen())) document.querySelector(event.key === "r" ? "#tabs .back" : `#tabs a[href="${room}${PANELS[event.key]}"]`)?.click();
    return;
  }
  const calls = [...document.querySelectorAll("#log details.call > summary")];
  const now = calls.indexOf(document.activeElement);
  switch (event.key) {
    case "/":
      if (!document.getElementById("text")) return;
      event.preventDefault();
      document.getElementById("text").focus();
      break;
    case "g":
      isGoing = true;
      setTimeout(() => (isGoing = false), 1500);
      break;
    case "[":
      calls.at(now < 0 ? -1 : now - 1)?.focus();
      break;
    case "]":
      calls[(now + 1) % calls.length]?.focus();
      break;
    case "?":
      location.assign("/keys");
      break;
    case "Escape":
      if (isPanelOpen()) document.querySelector("#tabs .back").click();
  }
});

const single = document.getElementById("single-keys");
if (single) {
  single.checked = !localStorage.getItem(OFF_KEY);
  single.addEventListener("change", () => (single.checked ? localStorage.removeItem(OFF_KEY) : localStorage.setItem(OFF_KEY, "1")));
}
