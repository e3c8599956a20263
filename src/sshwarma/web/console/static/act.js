// Forms whose answer is put into the page: a refused line stays as it was typed.
import { setHTML } from "./html.js";

async function act(form) {
  const place = document.getElementById(form.dataset.part);
  form.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "text/html;part" },
      body: new URLSearchParams(new FormData(form)),
    });
    setHTML(place, await answer.text());
    const path = answer.headers.get("Sshwarma-Path");
    if (path) location.assign(path);
    if (answer.status === 401) location.reload();
    if (answer.ok) form.reset();
  } catch {
    place.textContent = "The server does not answer. What you typed is still there.";
  } finally {
    form.removeAttribute("aria-busy");
    form.querySelector("textarea")?.focus();
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.part) return;
  event.preventDefault();
  if (event.target.getAttribute("aria-busy") !== "true") act(event.target);
});

document.addEventListener("keydown", (event) => {
  const isSent = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
  if (!isSent || event.target.tagName !== "TEXTAREA" || matchMedia("(pointer: coarse)").matches) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});
