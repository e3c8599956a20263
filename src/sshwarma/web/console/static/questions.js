// A call can be allowed once its arguments were seen to their end: the worst of them may stand below an edge. And a
// card that comes to the place of another is not the one that somebody was about to press.
const questions = document.getElementById("questions");
const STILL_MILLISECONDS = 1000;
const LOOK_MILLISECONDS = 100;
const places = new WeakMap(); // of buttons: where, and since when

const seen = new IntersectionObserver((found) => {
  for (const { target, isIntersecting } of found) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    const card = target.closest(".question");
    card.dataset.isRead = "";
    card.querySelector(".actions > .s-warn").classList.add("unneeded"); // its place stays, or the buttons would move
  }
});

function watch(card) {
  const button = card.querySelector("[data-allow]");
  if (!button) return;
  const end = Object.assign(document.createElement("span"), { className: "end" });
  card.querySelector("pre").append(end);
  card.querySelector(".actions > .s-warn").classList.remove("unneeded");
  button.disabled = true;
  seen.observe(end);
}

// Whether a button has stood where it is for a while.
function isStill(button) {
  const { left, top } = button.getBoundingClientRect();
  const before = places.get(button);
  const now = performance.now();
  if (before?.left === left && before.top === top) return now - before.since >= STILL_MILLISECONDS;
  places.set(button, { left, top, since: now });
  return false;
}

function look() {
  for (const button of questions.querySelectorAll("[data-allow]")) {
    const isFree = isStill(button) && "isRead" in button.closest(".question").dataset;
    if (button !== document.activeElement || isFree) button.disabled = !isFree; // else the focus would be lost
  }
}
setInterval(look, LOOK_MILLISECONDS);

// By keyboard the card is chosen by the focus, which no other takes over.
questions.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.("[data-allow]");
    if (button && event.detail !== 0 && !isStill(button)) event.preventDefault();
  },
  true,
);

new MutationObserver((changes) => {
  for (const { addedNodes } of changes) for (const one of addedNodes) if (one.matches?.(".question")) watch(one);
}).observe(questions, { childList: true });
questions.querySelectorAll(".question").forEach(watch);
