// The terminal: keys go to the server's own shell, and what that draws comes back.
import { isOtherPortOfOurs } from "./html.js";
import { FitAddon, Terminal, UnicodeGraphemesAddon, WebLinksAddon } from "./vendor/xterm.js";

const SUBPROTOCOL = "sshwarma.term.1";
const MAX_MESSAGE_BYTES = 32 * 1024;
const SIGNED_OUT = 4401;
const SCROLLBACK_LINES = 5000;
const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D" };
const READER_KEY = "terminal for a screen reader";

const place = document.getElementById("terminal");
const state = document.getElementById("state");
const keys = document.getElementById("keys");
const reader = document.getElementById("reader");
const control = keys.querySelector("[data-sticky]");
const encoder = new TextEncoder();
let socket;
let isSignedOut = false;

// The colours of the page, which a canvas or a terminal cannot name by variables.
function readTheme() {
  const probe = document.createElement("span");
  probe.hidden = true;
  place.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const [ground, ink, dim, red, green, yellow, blue, magenta, cyan] = ["ground", "ink", "dim", "red", "green", "yellow", "blue", "violet", "cyan"].map(read);
  probe.remove();
  return {
    background: ground, foreground: ink, cursor: ink, cursorAccent: ground, black: ground, white: ink,
    red, green, yellow, blue, magenta, cyan, brightBlack: dim, brightWhite: ink,
    brightRed: red, brightGreen: green, brightYellow: yellow, brightBlue: blue, brightMagenta: magenta, brightCyan: cyan,
    selectionBackground: matchMedia("(prefers-color-scheme: dark)").matches ? "#2f4d80" : "#b9d2ff",
  }; // prettier-ignore
}

// A link of others may say one thing and lead to another: the address is shown before it is opened.
function follow(event, address) {
  if (!/^https?:\/\//i.test(address)) return;
  if (isOtherPortOfOurs(address)) return alert("Not opened: a page at another port of this host would get the cookie that signs you in.");
  if (confirm(`Open this address?\n\n${new URL(address).href}`)) window.open(address, "_blank", "noopener,noreferrer");
}

const terminal = new Terminal({
  allowProposedApi: true,
  cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  fontFamily: "ui-monospace, monospace",
  fontSize: 14,
  lineHeight: 1.2, // in rows as high as the font, underscores are cut
  linkHandler: { activate: follow },
  minimumContrastRatio: 4.5,
  screenReaderMode: localStorage.getItem(READER_KEY) === "yes",
  scrollback: SCROLLBACK_LINES,
  theme: readTheme(),
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.loadAddon(new WebLinksAddon(follow));
terminal.loadAddon(new UnicodeGraphemesAddon());
terminal.open(place);
terminal.textarea.setAttribute("aria-label", "Terminal. F6 leaves it.");
fit.fit();
terminal.focus();

const isOpen = () => socket?.readyState === WebSocket.OPEN;

function sendSize() {
  if (isOpen()) socket.send(JSON.stringify({ columns: terminal.cols, rows: terminal.rows }));
}

function send(bytes) {
  for (let start = 0; isOpen() && start < bytes.length; start += MAX_MESSAGE_BYTES) socket.send(bytes.subarray(start, start + MAX_MESSAGE_BYTES));
}

// What an application has switched on ends with its connection; the lines stay.
const leaveModes = () => terminal.write("\x1b[!p\x1b[?2004l\x1b[?1l\x1b[?25h\x1b[m");

function connect() {
  const address = new URL("/term", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.searchParams.set("owner", document.documentElement.dataset.owner);
  if (place.dataset.room) address.searchParams.set("in", place.dataset.room);
  state.textContent = "Connecting …";
  const mine = (socket = new WebSocket(address, SUBPROTOCOL));
  mine.binaryType = "arraybuffer";
  mine.onopen = () => {
    state.textContent = "Connected.";
    sendSize();
  };
  mine.onmessage = ({ data }) => terminal.write(new Uint8Array(data));
  mine.onclose = ({ code, reason }) => {
    if (mine !== socket) return;
    isSignedOut = code === SIGNED_OUT;
    leaveModes();
    const what = { 1000: "The session has ended.", 1012: "The server restarts." }[code] ?? (reason || "The connection is lost.");
    state.textContent = `${what} ${isSignedOut ? "Enter leads to signing in." : "Enter connects again."}`;
    terminal.write(`\r\n\x1b[7m${state.textContent}\x1b[m\r\n`);
    socket = undefined;
  };
}

function takeControl(text) {
  if (control.getAttribute("aria-pressed") !== "true" || text.length !== 1) return text;
  control.setAttribute("aria-pressed", "false");
  const code = text.toUpperCase().charCodeAt(0);
  return code >= 63 && code <= 95 ? String.fromCharCode(code === 63 ? 127 : code & 31) : text;
}

terminal.onData((text) => {
  if (socket) return send(encoder.encode(takeControl(text)));
  if (text !== "\r") return;
  if (isSignedOut) location.reload();
  else connect();
});
terminal.onBinary((text) => send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
terminal.onResize(sendSize);
new ResizeObserver(() => fit.fit()).observe(place);

terminal.attachCustomKeyEventHandler((event) => {
  if (event.key === "F6") return false; // keys.js goes to the next region
  if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
    event.preventDefault(); // it would open the tools of developers
    if (event.type === "keydown" && terminal.hasSelection()) document.execCommand("copy");
    return false;
  }
  return !(event.ctrlKey && event.shiftKey && event.code === "KeyV"); // the browser pastes
});
place.addEventListener("focus", () => terminal.focus());

reader.checked = terminal.options.screenReaderMode;
reader.addEventListener("change", () => {
  terminal.options.screenReaderMode = reader.checked;
  localStorage.setItem(READER_KEY, reader.checked ? "yes" : "no");
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (terminal.options.theme = readTheme()));

keys.hidden = !matchMedia("(pointer: coarse)").matches;
keys.addEventListener("mousedown", (event) => event.preventDefault()); // the terminal keeps the focus
keys.addEventListener("click", ({ target }) => {
  const { key } = target.dataset;
  if (target === control) control.setAttribute("aria-pressed", control.getAttribute("aria-pressed") !== "true");
  else if (key in ARROWS) terminal.input(`\x1b${terminal.modes.applicationCursorKeysMode ? "O" : "["}${ARROWS[key]}`);
  else if (key) terminal.input(key === "Tab" ? "\t" : "\x1b");
  terminal.focus();
});

connect();
