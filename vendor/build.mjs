// Bundles third-party code for the console: `make vendor`. Two builds give the same bytes.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, readdirSync, rmSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../src/sshwarma/web/console/static/vendor");
const HELPER = join(HERE, "adopted_style.js");

// Neither library works under a policy without 'unsafe-inline' as it is; a nonce would be known to
// every script. So style elements become adopted sheets, and style attributes go through the CSSOM.
const PATCHES = [
  { file: /\/@xterm\/xterm\/lib\/xterm\.mjs$/, from: /[\w.]*\b(?:_document|mainDocument)\.createElement\("style"\)/g, count: 3, to: adopt },
  {
    file: /\/@xterm\/xterm\/lib\/xterm\.mjs$/,
    from: /(\w)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w)\};`\)/g,
    count: 1,
    to: (_, element, style) => `${element}.style.cssText+=${style}+";"`,
  },
  { file: /\/style-mod\/src\/style-mod\.js$/, from: /doc\.createElement\("style"\)/g, count: 1, to: adopt },
];

function adopt(found) {
  return `__makeAdoptedStyle(${found.slice(0, found.lastIndexOf(".createElement"))})`;
}

const patching = {
  name: "policy",
  setup({ onLoad }) {
    onLoad({ filter: /(xterm\.mjs|style-mod\.js)$/ }, ({ path }) => {
      let contents = readFileSync(path, "utf8");
      for (const { file, from, count, to } of PATCHES.filter((one) => one.file.test(path))) {
        const found = contents.match(from)?.length ?? 0;
        if (found !== count) throw new Error(`${path}: ${from} is there ${found} times, not ${count}`);
        contents = contents.replace(from, to);
      }
      if (/createElement\("style"\)/.test(contents)) throw new Error(`${path}: makes another style element`);
      return { contents: `import { makeAdoptedStyle as __makeAdoptedStyle } from ${JSON.stringify(HELPER)};\n${contents}`, loader: "js" };
    });
  },
};

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const folders = new Set();
for (const name of ["codemirror", "xterm"]) {
  const { metafile } = await build({
    entryPoints: [join(HERE, `${name}.entry.js`)],
    outfile: join(OUT, `${name}.js`),
    absWorkingDir: HERE,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none", // LICENSES.txt has them
    metafile: true,
    plugins: [patching],
  });
  for (const [path, { bytesInOutput }] of Object.entries(Object.values(metafile.outputs)[0].inputs)) {
    const folder = bytesInOutput && path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1];
    if (folder) folders.add(folder);
  }
}
copyFileSync(join(HERE, "node_modules/@xterm/xterm/css/xterm.css"), join(OUT, "xterm.css"));

const packages = {};
const licences = [];
for (const folder of [...folders].sort()) {
  const place = join(HERE, "node_modules", folder);
  const { version, license } = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
  packages[folder] = { version, license };
  const text = readFileSync(join(place, readdirSync(place).find((name) => /^licen[cs]e/i.test(name))), "utf8");
  licences.push(`${folder} ${version} (${license})\n\n${text.trim()}\n`);
}
licences.push(readFileSync(join(HERE, "more_licences.txt"), "utf8"));
writeFileSync(join(OUT, "LICENSES.txt"), licences.join(`\n${"-".repeat(79)}\n\n`));
const sums = {};
for (const name of readdirSync(OUT).sort()) {
  sums[name] = createHash("sha256").update(readFileSync(join(OUT, name))).digest("hex");
}
writeFileSync(join(OUT, "versions.json"), `${JSON.stringify({ packages, sha256: sums }, null, 2)}\n`);
