// Debug: what a button of a turn gave stays when the panel is fetched again.
const ANSWER = "debug-answer";
let kept = [];

document.addEventListener("acted", ({ target }) => {
  if (target.dataset.part === ANSWER) kept = [...document.getElementById(ANSWER).childNodes];
});
document.addEventListener("loaded", () => {
  const place = document.getElementById(ANSWER);
  if (place) place.replaceChildren(...kept);
  else kept = []; // another view is open now
});
