// Runs before a page's own scripts, which may replace every method: it keeps those that it uses later.
(() => {
  const keep = (method) => Function.prototype.call.bind(method);
  const lower = keep(String.prototype.toLowerCase);
  const indexOf = keep(String.prototype.indexOf);
  const slice = keep(String.prototype.slice);
  const NAMES = { __proto__: null, iframe: 1, frame: 1, frameset: 1, fencedframe: 1, object: 1, embed: 1 };
  const ENDS = { __proto__: null, " ": 1, "\t": 1, "\n": 1, "\f": 1, "\r": 1, "/": 1, ">": 1 };

  for (const name of Object.getOwnPropertyNames(window)) if (/rtc|webtransport|xslt/i.test(name)) delete window[name];
  for (const kind of [Element, ShadowRoot, Document]) {
    for (const name of Object.getOwnPropertyNames(kind.prototype)) if (/^stream/i.test(name)) delete kind.prototype[name];
  }

  // A frame has a window of its own, with all that was deleted here: in markup, it is shown as text.
  function clean(html) {
    if (indexOf(lower(html), "<!entity") >= 0) return ""; // of XML, which could spell any tag
    let out = "";
    let from = 0;
    for (let at = indexOf(html, "<"); at >= 0; at = indexOf(html, "<", at + 1)) {
      let begin = at + 1;
      if (html[begin] === "/") begin += 1;
      let end = begin;
      for (; end < html.length && !ENDS[html[end]]; end += 1) if (html[end] === ":") begin = end + 1; // a prefix of XML
      if (!NAMES[lower(slice(html, begin, end))]) continue;
      out += slice(html, from, at) + "&lt;";
      from = at + 1;
    }
    return out + slice(html, from);
  }

  globalThis.trustedTypes?.createPolicy("default", {
    createHTML: (html, type, sink) => (sink === "HTMLIFrameElement srcdoc" ? "" : clean(html)),
    createScript: (text, type, sink) =>
      sink === "HTMLScriptElement text" || sink === "HTMLScriptElement textContent" || sink === "HTMLScriptElement innerText" || slice(sink, 0, 10) === "Element on" ? text : null,
  });

  // Written in pieces, a tag would not be seen.
  const insert = keep(Element.prototype.insertAdjacentHTML);
  const current = keep(Object.getOwnPropertyDescriptor(Document.prototype, "currentScript").get);
  const write = (...texts) => {
    const script = current(document);
    insert(script ?? document.body ?? document.documentElement, script ? "afterend" : "beforeend", texts.join(""));
  };
  Document.prototype.write = write;
  Document.prototype.writeln = (...texts) => write(...texts, "\n");

  // Opened as a file it stays where it is: in an address it could take its data along.
  if (globalThis.navigation && globalThis.NavigateEvent) {
    const prevent = keep(Event.prototype.preventDefault);
    const isHash = keep(Object.getOwnPropertyDescriptor(NavigateEvent.prototype, "hashChange").get);
    navigation.addEventListener("navigate", (event) => {
      if (!isHash(event)) prevent(event);
    });
  }
})();
