// Runs before a page's own scripts, which may replace every method: it keeps those that it uses later.
(() => {
  const keep = (method) => Function.prototype.call.bind(method);
  const getter = (kind, name) => keep(Object.getOwnPropertyDescriptor(kind.prototype, name).get);
  const lower = keep(String.prototype.toLowerCase);
  const indexOf = keep(String.prototype.indexOf);
  const slice = keep(String.prototype.slice);
  const prevent = keep(Event.prototype.preventDefault);
  const NAMES = { __proto__: null, iframe: 1, frame: 1, frameset: 1, fencedframe: 1, object: 1, embed: 1, link: 1 };
  const ENDS = { __proto__: null, " ": 1, "\t": 1, "\n": 1, "\f": 1, "\r": 1, "/": 1, ">": 1 };

  for (const name of Object.getOwnPropertyNames(window)) if (/rtc|webtransport|xslt/i.test(name)) delete window[name];
  for (const kind of [Element, ShadowRoot, Document]) {
    for (const name of Object.getOwnPropertyNames(kind.prototype)) if (/^stream/i.test(name)) delete kind.prototype[name];
  }
  window.open = () => null;

  // A name may have a prefix of XML.
  function isRefused(name) {
    let begin = 0;
    for (let at = 0; at < name.length; at += 1) if (name[at] === ":") begin = at + 1;
    return NAMES[lower(slice(name, begin, name.length))] === 1;
  }

  // A frame has a window of its own, with all that was deleted here, and a link asks for addresses ahead.
  const refuse = (name) => {
    throw new DOMException(`A page of a tool has no <${name}>.`, "NotSupportedError");
  };
  const create = keep(Document.prototype.createElement);
  const createNS = keep(Document.prototype.createElementNS);
  Document.prototype.createElement = function createElement(name, options) {
    const text = `${name}`;
    return isRefused(text) ? refuse(text) : create(this, text, options);
  };
  Document.prototype.createElementNS = function createElementNS(space, name, options) {
    const text = `${name}`;
    return isRefused(text) ? refuse(text) : createNS(this, space, text, options);
  };
  const define = keep(CustomElementRegistry.prototype.define);
  CustomElementRegistry.prototype.define = function defineElement(name, kind) {
    return define(this, name, kind); // without `extends`, which could be a frame
  };

  // In markup they are shown as text.
  function clean(html) {
    if (indexOf(lower(html), "<!entity") >= 0) return ""; // of XML, which could spell any tag
    let out = "";
    let from = 0;
    for (let at = indexOf(html, "<"); at >= 0; at = indexOf(html, "<", at + 1)) {
      const begin = html[at + 1] === "/" ? at + 2 : at + 1;
      let end = begin;
      while (end < html.length && !ENDS[html[end]]) end += 1;
      if (!isRefused(slice(html, begin, end))) continue;
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
  const current = getter(Document, "currentScript");
  const write = (...texts) => {
    const script = current(document);
    insert(script ?? document.body ?? document.documentElement, script ? "afterend" : "beforeend", texts.join(""));
  };
  Document.prototype.write = write;
  Document.prototype.writeln = (...texts) => write(...texts, "\n");

  // A click that opens a link in a new tab or window takes along what is in the address.
  const parts = ["button", "ctrlKey", "metaKey", "shiftKey", "altKey"].map((name) => getter(MouseEvent, name));
  const isOther = (event) => {
    for (let at = 0; at < 5; at += 1) if (parts[at](event)) return true;
    return false;
  };
  for (const name of ["click", "auxclick", "dragstart", "contextmenu"]) {
    addEventListener(name, (event) => (name === "dragstart" || name === "contextmenu" || isOther(event)) && prevent(event), true);
  }

  // Opened as a file it stays where it is: in an address it could take its data along.
  if (globalThis.navigation && globalThis.NavigateEvent) {
    const isHash = getter(NavigateEvent, "hashChange");
    navigation.addEventListener("navigate", (event) => {
      if (!isHash(event)) prevent(event);
    });
  }
})();
