// Bundle the script of the page. With --check, compare the bundle with the committed file instead of writing it.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = fileURLToPath(new URL("../page.js", import.meta.url));

const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  banner: { js: "// Built by `make page` from seqattn/report/web/src. Change the sources, not this file." },
  bundle: true,
  format: "iife",
  legalComments: "none",
  target: "es2022",
  write: false,
});
const script = outputFiles[0].text;

if (!process.argv.includes("--check")) {
  await writeFile(target, script);
} else if ((await readFile(target, "utf8")) !== script) {
  console.error("seqattn/report/page.js is not the bundle of its sources. Run: make page, and commit page.js.");
  process.exitCode = 1;
}
