// The picker of tools and the form of one, in the panel of a room.
const panel = document.getElementById("panel");
const find = (id) => panel.querySelector(`#${id}`);
let words = null; // of the filter; null while the server has filtered
let cursor = 0;

function filter() {
  if (words === null) return;
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const group of panel.querySelectorAll(".tools-group")) {
    let shown = 0;
    for (const item of group.querySelectorAll(".tools > li")) {
      const text = `${group.ariaLabel} ${item.textContent}`.toLowerCase();
      item.hidden = !wanted.every((word) => text.includes(word));
      shown += !item.hidden;
    }
    group.hidden = !shown;
    count += shown;
  }
  const found = count === 1 ? ["1 tool", "has"] : [`${count} tools`, "have"];
  find("tools-count").textContent = wanted.length ? `${found.join(" ")} “${words}”` : found[0];
}

panel.addEventListener("input", ({ target }) => {
  if (target.id === "tools-filter") {
    words = target.value;
    cursor = target.selectionStart;
    filter();
  } else if (target.form?.id === "tool-form") target.form.dataset.still = "";
});

panel.addEventListener("submit", (event) => {
  if ("hasAll" in event.target.dataset) event.preventDefault();
  if (event.target.id !== "tool-form") return;
  event.target.dataset.still = "";
  find("tool-result").textContent = "It runs …";
});

panel.addEventListener("click", ({ target }) => {
  if (target.closest("a")) words = null;
});

panel.addEventListener("loaded", () => {
  const input = find("tools-filter");
  if (!input || words === null) return;
  input.value = words;
  if (input === document.activeElement) input.setSelectionRange(cursor, cursor);
  filter();
});
