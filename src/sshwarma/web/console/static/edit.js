// Makes an editor of every textarea with data-language: a language of vendor/codemirror.js, its ending, or "".
// The textarea stays the field of its form. With data-other, the id of an element with another text, the editor
// shows where the two differ, and takes either side: data-keeps-label and data-takes-label are the words of the choice.
const ENDINGS = {
  bash: "shell", cjs: "javascript", htm: "html", js: "javascript", jsonl: "json", jsx: "javascript", md: "markdown",
  mjs: "javascript", py: "python", pyi: "python", sh: "shell", ts: "typescript", tsx: "typescript", yml: "yaml",
}; // prettier-ignore
const HINT = "Tab leaves the editor. Ctrl-] indents, Ctrl-[ unindents, Ctrl-F searches.";
const editors = new Map();
let library;

const load = () => (library ??= import("./vendor/codemirror.js"));

function findLanguage(languages, name) {
  const ending = name.toLowerCase().split(".").at(-1);
  const make = languages[ENDINGS[ending] ?? ending];
  return Object.hasOwn(languages, ENDINGS[ending] ?? ending) ? make() : [];
}

// A textarea gives its text with line feeds alone; what the page was sent is its default.
function readExact(textarea) {
  const given = textarea.defaultValue;
  return given.replace(/\r\n?/g, "\n") === textarea.value ? given : textarea.value;
}

const findLineEnd = (text) => (/\r\n/.test(text) && !/\r(?!\n)|(?<!\r)\n/.test(text) ? "\r\n" : "\n");

function makeLook({ EditorView, HighlightStyle, syntaxHighlighting, tags }) {
  const style = HighlightStyle.define([
    { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.heading], class: "s-code-keyword" },
    { tag: [tags.string, tags.regexp, tags.special(tags.string)], class: "s-code-string" },
    { tag: [tags.number, tags.bool, tags.null, tags.atom], class: "s-code-number" },
    { tag: [tags.comment, tags.meta], class: "s-code-comment" },
    { tag: [tags.function(tags.variableName), tags.propertyName, tags.attributeName, tags.link, tags.url], class: "s-code-name" },
    { tag: [tags.typeName, tags.className, tags.tagName, tags.namespace], class: "s-code-type" },
    { tag: tags.strong, class: "s-strong" },
    { tag: tags.emphasis, class: "s-emphasis" },
    { tag: tags.inserted, class: "s-code-added" },
    { tag: [tags.deleted, tags.invalid], class: "s-code-removed" },
  ]);
  const theme = EditorView.theme({
    "&": { color: "var(--ink)", backgroundColor: "var(--raised)", border: "1px solid var(--edge)", borderRadius: ".25rem", maxHeight: "70dvh" },
    "&.cm-focused": { outline: "3px solid var(--blue)", outlineOffset: "2px" },
    ".cm-scroller": { font: ".9rem/1.5 ui-monospace, monospace", overflow: "auto", minHeight: "6rem" },
    ".cm-content": { caretColor: "var(--ink)" },
    ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
    ".cm-gutters": { color: "var(--dim)", backgroundColor: "var(--raised)", borderRight: "1px solid var(--edge)" },
    ".cm-activeLine": { backgroundColor: "transparent" },
    ".cm-activeLineGutter": { color: "var(--ink)", backgroundColor: "var(--ground)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection": { backgroundColor: "light-dark(#b9d2ff, #2f4d80)" },
    ".cm-panels": { color: "var(--ink)", backgroundColor: "var(--ground)", borderColor: "var(--edge)" },
    ".cm-panels button, .cm-textfield": { color: "var(--ink)", background: "var(--raised)", border: "1px solid var(--edge)", minHeight: "2.75rem" },
    ".cm-tooltip": { color: "var(--ink)", backgroundColor: "var(--ground)", border: "1px solid var(--edge)" },
    ".cm-specialChar": { color: "var(--red)" },
    ".cm-deletedChunk": { backgroundColor: "light-dark(#fde8e8, #3b2226)", paddingLeft: "6px" },
    ".cm-deletedChunk .cm-chunkButtons": { position: "static", display: "flex", flexWrap: "wrap", gap: ".5rem", padding: ".25rem 0" },
    ".cm-deletedChunk .cm-chunkButtons button": { minHeight: "2.75rem", padding: ".25rem .75rem", margin: "0", whiteSpace: "normal", overflowWrap: "anywhere", color: "var(--ink)", background: "var(--ground)", border: "1px solid var(--edge)" },
    ".cm-changedLine, &.cm-merge-b .cm-changedLine": { backgroundColor: "light-dark(#e4f5e8, #1f3326)" },
  });
  return [theme, syntaxHighlighting(style)];
}

// Says both sides in words: in a conflict neither the old nor the new text is the right one by its colour.
function makeMerge({ unifiedMergeView }, other, { keepsLabel = "Keep what is here", takesLabel = "Take the other text" }) {
  return unifiedMergeView({
    original: other,
    highlightChanges: true,
    mergeControls(type, take) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = type === "accept" ? keepsLabel : takesLabel;
      button.addEventListener("click", take);
      return button;
    },
  });
}

function makeExtensions(parts, textarea, lineEnd, other, onChange) {
  const { EditorState, EditorView, keymap } = parts;
  const label = textarea.labels[0];
  const attributes = { "aria-label": label?.textContent.trim() || textarea.getAttribute("aria-label") || textarea.name, "aria-multiline": "true" };
  attributes["aria-describedby"] = [textarea.getAttribute("aria-describedby"), `${textarea.id}-keys`].filter(Boolean).join(" ");
  if (textarea.readOnly) attributes["aria-readonly"] = "true";
  return [
    parts.lineNumbers(), parts.highlightActiveLineGutter(), parts.highlightSpecialChars(), parts.history(), parts.drawSelection(),
    parts.indentOnInput(), parts.bracketMatching(), parts.search({ top: true }), parts.highlightSelectionMatches(),
    parts.autocompletion({ activateOnTyping: false }), makeLook(parts),
    keymap.of([...parts.searchKeymap, ...parts.historyKeymap, ...parts.completionKeymap, ...parts.defaultKeymap]),
    EditorState.lineSeparator.of(lineEnd),
    EditorState.readOnly.of(textarea.readOnly),
    EditorView.lineWrapping,
    // To replace a selection, a browser joins lines and puts styles on them, which the policy forbids.
    EditorView.domEventHandlers({
      beforeinput(event, view) {
        if (event.inputType !== "insertText" || event.isComposing || view.state.readOnly || view.state.selection.main.empty) return false;
        event.preventDefault();
        const text = (event.data ?? "").replace(/\r\n?|\n/g, lineEnd);
        view.dispatch(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
        return true;
      },
    }),
    EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?|\n/g, lineEnd)),
    EditorView.contentAttributes.of(attributes),
    EditorView.updateListener.of((update) => update.docChanged && onChange(update.state)),
    findLanguage(parts.languages, textarea.dataset.language),
    other === undefined ? [] : makeMerge(parts, other, textarea.dataset),
  ]; // prettier-ignore
}

class Editor {
  constructor(parts, textarea) {
    this.textarea = textarea;
    this.parts = parts;
    this.exact = readExact(textarea);
    this.saved = textarea.value;
    this.place = document.createElement("div");
    this.place.className = "editor";
    const hint = Object.assign(document.createElement("p"), { id: `${textarea.id}-keys`, className: "s-dim", textContent: textarea.readOnly ? "This text is read only." : HINT });
    textarea.after(this.place, hint);
    textarea.hidden = true;
    textarea.required = false; // a browser cannot show what is wrong with a hidden field; the server says it
    const other = textarea.dataset.other ? document.getElementById(textarea.dataset.other) : null;
    if (other) (other.closest(".field") ?? other).hidden = true;
    this.other = other ? (other.value ?? other.textContent) : undefined;
    this.view = new parts.EditorView({ parent: this.place, state: this.makeState(this.exact) });
    for (const label of textarea.labels) label.addEventListener("click", () => this.view.focus());
    textarea.form?.addEventListener("formdata", ({ formData }) => textarea.name && !textarea.disabled && formData.set(textarea.name, this.exact));
    textarea.form?.addEventListener("reset", () => setTimeout(() => this.show(textarea.defaultValue)));
    textarea.form?.addEventListener("submit", () => (this.sent = textarea.value));
    textarea.form?.addEventListener("acted", () => {
      this.saved = this.sent ?? textarea.value; // not what was typed while it was stored
      this.mark();
    });
    if (textarea.autofocus) this.view.focus();
  }

  makeState(text) {
    const lineEnd = findLineEnd(text);
    const extensions = makeExtensions(this.parts, this.textarea, lineEnd, this.other, (state) => this.take(state));
    return this.parts.EditorState.create({ doc: text, extensions });
  }

  take(state) {
    this.exact = state.sliceDoc();
    this.textarea.value = this.exact;
    this.mark();
    this.textarea.dispatchEvent(new Event("input", { bubbles: true }));
  }

  show(text) {
    this.exact = text;
    this.textarea.value = text;
    this.view.setState(this.makeState(text));
    this.saved = this.textarea.value;
    this.mark();
  }

  // Another text of the form may be unsaved too.
  mark() {
    const form = this.textarea.form;
    const isChanged = [...editors.values()].some((one) => one.textarea.form === form && one.textarea.value !== one.saved);
    form?.toggleAttribute("data-unsaved", isChanged);
  }
}

export async function upgrade(root = document) {
  for (const [textarea, { view }] of editors) {
    if (textarea.isConnected) continue;
    view.destroy();
    editors.delete(textarea);
  }
  const found = [...root.querySelectorAll("textarea[data-language]")].filter((one) => !editors.has(one));
  if (!found.length) return;
  const parts = await load();
  for (const textarea of found) {
    if (!textarea.isConnected || editors.has(textarea)) continue;
    textarea.id ||= `text-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
    editors.set(textarea, new Editor(parts, textarea));
  }
}

document.addEventListener("loaded", () => upgrade());
document.addEventListener("acted", () => upgrade());
// A form that is sent as a page is no loss; one whose answer comes into the page is saved when it has come.
addEventListener("submit", ({ target, defaultPrevented }) => defaultPrevented || target.removeAttribute("data-unsaved"));
addEventListener("beforeunload", (event) => document.querySelector("form[data-unsaved]") && event.preventDefault());
upgrade();
