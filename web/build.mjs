// Builds the script and the style of the HTML report into the Python package; with --check says whether they are fresh.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "src", "firstfault", "report", "assets");

/** A name for the sources and the lock file, so that a test without node sees a build that was forgotten. */
function stamp() {
  const hash = createHash("sha256");
  const names = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];
  names.push(...readdirSync(join(here, "src")).sort().map((name) => `src/${name}`));
  for (const name of names) {
    hash.update(name).update("\0").update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

const common = { bundle: true, minify: true, charset: "ascii", legalComments: "eof", write: false, logLevel: "warning" };
const mark = `/* built by web/build.mjs from sources ${stamp()} */\n`;
const script = await build({
  ...common, entryPoints: [join(here, "src", "main.ts")], format: "iife", target: "es2020", tsconfig: join(here, "tsconfig.json"),
});
const sheet = (name) => readFileSync(join(here, "src", name), "utf8");
/** Both ways into the dark theme hold the same values, which no selector alone can say. */
const css = sheet("report.css").replaceAll("@dark;", () => sheet("dark.css"));
const style = await build({
  ...common, stdin: { contents: css, loader: "css", resolveDir: join(here, "src"), sourcefile: "report.css" }, target: "chrome100",
});
/** The licences of what is bundled, which their terms ask us to pass on. */
const licences = ["uplot", "d3-hierarchy"]
  .map((name) => `${name}\n\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim()}\n`)
  .join(`\n${"-".repeat(72)}\n\n`);
const made = {
  "report.js": mark + script.outputFiles[0].text,
  "report.css": mark + style.outputFiles[0].text,
  "LICENSES.txt": `The script and the style of the HTML report hold these libraries.\n\n${licences}`,
};

let stale = 0;
for (const [name, text] of Object.entries(made)) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end its own element`);
  const path = join(assets, name);
  if (!process.argv.includes("--check")) {
    writeFileSync(path, text);
    console.log(`${name}: ${text.length} bytes`);
  } else if (readFileSync(path, "utf8") !== text) {
    console.error(`${name} in src/firstfault/report/assets is not what web/ builds: run \`make web\` and commit it`);
    stale = 1;
  }
}
process.exitCode = stale;
