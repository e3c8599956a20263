// What static/term.js needs of xterm. Without its clipboard add-on: a world must not write there.
export { FitAddon } from "@xterm/addon-fit";
export { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
export { WebLinksAddon } from "@xterm/addon-web-links";
export { Terminal } from "@xterm/xterm";
