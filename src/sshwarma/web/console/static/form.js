// Completion in the fields of a verb's form: the values that the verb itself lists.
import { fetchPart } from "./act.js";

const form = document.getElementById("form");
const WAIT_MILLISECONDS = 150;
const timers = new Map();
let asked;

async function fill(input, list) {
  asked?.abort();
  const mine = (asked = new AbortController());
  const query = new URLSearchParams();
  for (const one of form.querySelectorAll("input[name]:not([type=file]), select[name]")) {
    if (["checkbox", "radio"].includes(one.type) && !one.checked) continue;
    query.set(one.name, one.value); // texts of many lines are no part of an address
    if (one === input) break;
  }
  query.set("in", form.dataset.room);
  query.set("field", input.name);
  const answer = await fetchPart(`/verb/${form.dataset.verb}/values?${query}`, { signal: mine.signal });
  if (!answer.ok) return;
  list.replaceChildren(
    ...(await answer.json()).map(([value, note]) => Object.assign(document.createElement("option"), { value, label: note ? `${value}: ${note}` : value })),
  );
}

for (const input of form?.querySelectorAll("[data-completes]") ?? []) {
  const list = document.createElement("datalist");
  list.id = `values-${input.name}`;
  input.after(list);
  input.setAttribute("list", list.id);
  const later = () => {
    clearTimeout(timers.get(input));
    timers.set(input, setTimeout(() => fill(input, list).catch(() => {}), WAIT_MILLISECONDS));
  };
  input.addEventListener("focus", later);
  input.addEventListener("input", later);
}
