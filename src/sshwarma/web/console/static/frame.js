// Pages of tools in frames of their own origin: made when they are seen, and as high as they ask.
const MIN_PIXELS = 40;
const MAX_PIXELS = 800;
const MAX_LIVE = 5;

// Frames of one page reach each other: a page of a tool could give its data to one of another server, which may send
// what it likes. So there are only those of one kind at a time.
const OWN = ".frame:not([data-asks])";
const OTHER = ".frame[data-asks]";

function start(place) {
  const rivals = "asks" in place.dataset ? OWN : OTHER;
  for (const one of document.querySelectorAll(rivals)) if (one.querySelector("iframe")) stop(one);
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "asks" in place.dataset ? "allow-scripts allow-forms" : "allow-scripts");
  frame.title = place.dataset.title;
  frame.referrerPolicy = "no-referrer";
  frame.src = place.dataset.frame;
  place.prepend(frame);
  place.querySelector("button")?.remove();
}

function stop(place) {
  place.querySelector("iframe")?.remove();
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: `Load ${place.dataset.title}` });
  button.addEventListener("click", () => start(place));
  place.prepend(button);
}

function find(place) {
  if (place.dataset.isFound) return;
  place.dataset.isFound = "1";
  const isFirst = document.querySelectorAll(".frame iframe").length < MAX_LIVE && !document.querySelector(`${OTHER} iframe`);
  if (!("asks" in place.dataset) && isFirst) start(place);
  else stop(place);
}

new MutationObserver(() => document.querySelectorAll(".frame:not([data-is-found])").forEach(find)).observe(document.body, { childList: true, subtree: true });
document.querySelectorAll(".frame").forEach(find);

// Only a page that stands here may ask, and only for a height.
addEventListener("message", ({ source, origin, data }) => {
  const frame = [...document.querySelectorAll(".frame iframe")].find((one) => one.contentWindow === source);
  const height = Number(data?.height ?? data);
  if (frame && origin === "null" && Number.isFinite(height)) frame.height = Math.max(MIN_PIXELS, Math.min(MAX_PIXELS, Math.round(height)));
});

document.addEventListener("click", async ({ target }) => {
  if (!target.dataset?.copy) return;
  await navigator.clipboard.writeText(document.getElementById(target.dataset.copy).textContent);
  target.textContent = "Copied";
});
