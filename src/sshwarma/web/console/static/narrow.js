// Narrows a list while somebody types: `data-narrows` of an input is the id of the element with the items.
// The server has hidden what does not match the words that the page was asked for.
const read = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const findLinks = (list) => [...list.querySelectorAll("li:not([hidden]) a")];

// Items whose names have all the words; without any, those that have them anywhere.
function narrow(input, list) {
  const words = read(input.value);
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const items = [...list.querySelectorAll("li")];
  const isNamed = items.some((item) => has(item.querySelector("a").textContent));
  const findText = (item) => `${item.textContent} ${item.closest("section").querySelector("h2").textContent}`;
  for (const item of items) item.hidden = !has(isNamed ? item.querySelector("a").textContent : findText(item));
  for (const group of list.querySelectorAll("section")) group.hidden = !group.querySelector("li:not([hidden])");
  list.querySelector("[data-none]").hidden = items.some((item) => !item.hidden);
}

function findWanted(input, list) {
  const wanted = read(input.value).join(" ");
  const links = findLinks(list);
  const name = (link) => link.textContent.toLowerCase();
  const exact = links.find((link) => name(link) === wanted) ?? links.find((link) => name(link) === `/${wanted}`);
  return exact ?? links.find((link) => name(link).includes(wanted)) ?? links[0];
}

function take(event, link) {
  if (!link) return;
  event.preventDefault();
  link.focus();
}

for (const input of document.querySelectorAll("input[data-narrows]")) {
  const list = document.getElementById(input.dataset.narrows);
  const step = (event, by) => {
    const links = findLinks(list);
    const next = links.indexOf(document.activeElement) + by;
    take(event, next < 0 ? input : links[next]);
  };
  input.addEventListener("input", () => narrow(input, list));
  input.addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "ArrowDown") take(event, findLinks(list)[0]);
    else if (event.key === "Tab" && !event.shiftKey && input.value.trim()) take(event, findLinks(list)[0]);
    else if (event.key === "Enter" && input.value.trim() && findWanted(input, list)) {
      event.preventDefault();
      findWanted(input, list).click();
    }
  });
  list.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") step(event, 1);
    else if (event.key === "ArrowUp") step(event, -1);
  });
  narrow(input, list); // a browser may have filled it in
}
