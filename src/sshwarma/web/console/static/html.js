// The one place that makes elements of HTML. The server has escaped all that others have written.
const policy = window.trustedTypes?.createPolicy("sshwarma", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

export function setHTML(element, html) {
  element.innerHTML = policy.createHTML(html);
  dropUnsafeLinks(element);
}

// Browsers send cookies to every port of a host: a page at another port of this one would get the session.
export function isOtherPortOfOurs(address) {
  const { hostname, port, protocol } = new URL(address, location.href);
  return /^https?:$/.test(protocol) && hostname === location.hostname && port !== location.port;
}

export function dropUnsafeLinks(root) {
  for (const link of root.querySelectorAll("a[href]")) {
    if (!isOtherPortOfOurs(link.href)) continue;
    link.removeAttribute("href");
    link.title = "Not a link: a page at another port of this host would get the cookie that signs you in.";
  }
}

// Draws a part of a page again: what is open there stays open or closed, and what has the focus keeps it.
export function drawAgain(place, html) {
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const wereOpen = [...place.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
  setHTML(place, html);
  for (const [id, isOpen] of wereOpen) document.getElementById(id)?.toggleAttribute("open", isOpen);
  if (focused) document.getElementById(focused)?.focus();
}
