// A stand-in for <style>, which the policy of the console forbids: what is written into it becomes a
// style sheet that the document adopts.
export function makeAdoptedStyle(owner) {
  const element = owner.createElement("template");
  const sheet = new owner.defaultView.CSSStyleSheet();
  owner.adoptedStyleSheets = [...owner.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text) });
  element.remove = () => {
    owner.adoptedStyleSheets = owner.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
