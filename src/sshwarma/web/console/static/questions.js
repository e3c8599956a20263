// A call can be allowed once its arguments were seen to their end: the worst of them may stand below an edge.
const questions = document.getElementById("questions");

const seen = new IntersectionObserver((found) => {
  for (const { target, isIntersecting } of found) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    setReadable(target.closest(".question"), true);
  }
});

function setReadable(card, isRead) {
  const button = card.querySelector("[data-allow]");
  if (!button) return;
  button.disabled = !isRead;
  card.querySelector(".actions > .s-warn").hidden = isRead;
}

function watch(card) {
  const end = Object.assign(document.createElement("span"), { className: "end" });
  card.querySelector("pre").append(end);
  setReadable(card, false);
  seen.observe(end);
}

new MutationObserver((changes) => {
  for (const { addedNodes } of changes) for (const one of addedNodes) if (one.matches?.(".question")) watch(one);
}).observe(questions, { childList: true });
questions.querySelectorAll(".question").forEach(watch);
