import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";

const test = (name, body) => nodeTest(name, { timeout: 300_000 }, body);
const npmTest = (name, body) => nodeTest(name, { timeout: 300_000, skip: !NPM && noNpm }, body);

const HERE = fileURLToPath(new URL("..", import.meta.url));

const NPM = spawnSync("npm", ["--version"]).status === 0;
const noNpm = "npm is missing: install it to check the package and its types";

/** The types are checked with this compiler, against the oldest Node.js there is a promise for. */
const TYPESCRIPT = ["typescript@5.9.3", "@types/node@18.19.130"];

/** Outside of the source tree: CLIENT_OUT keeps it from one run to the next. */
function folder(t, name) {
  const out = process.env.CLIENT_OUT;
  const dir = out ? join(out, name) : mkdtempSync(join(tmpdir(), `ojs-node-${name}-`));
  mkdirSync(dir, { recursive: true });
  if (!out) t.after(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, "package.json"), '{"private":true}');
  return dir;
}

function npm(dir, ...args) {
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--no-package-lock"];
  return spawnSync("npm", [...args, ...quiet], { cwd: dir, encoding: "utf8", timeout: 120_000 });
}

/** The package, as it is published. */
function tarball(dir) {
  const packed = npm(HERE, "pack", "--pack-destination", dir);
  assert.equal(packed.status, 0, packed.stderr);
  return join(dir, "ojs-worker-0.2.0.tgz");
}

npmTest("the tarball installs, and is imported both ways", (t) => {
  const dir = folder(t, "pack");
  const installed = npm(dir, "install", "--offline", tarball(dir));
  assert.equal(installed.status, 0, installed.stderr);
  const run = (...args) => execFileSync(process.execPath, args, { cwd: dir, encoding: "utf8" }).trim();
  for (const [entry, name] of [["ojs-worker", "Worker"], ["ojs-worker/testing", "devserver"], ["ojs-worker/compat", "OJSWorker"]]) {
    writeFileSync(join(dir, "a.mjs"), `import { ${name} } from "${entry}"; console.log(typeof ${name});`);
    assert.equal(run("a.mjs"), "function");
    assert.equal(run("-p", `typeof require("${entry}").${name}`), "function");
  }
  const { dependencies, license } = JSON.parse(readFileSync(join(dir, "node_modules/ojs-worker/package.json"), "utf8"));
  assert.deepEqual([dependencies, license], [undefined, "Apache-2.0"]);
  assert.match(readFileSync(join(dir, "node_modules/ojs-worker/LICENSE"), "utf8"), /Apache License/);
});

test("each entry has the same names in ESM, CommonJS and its declarations", async () => {
  for (const entry of ["ojs-worker", "testing", "compat"]) {
    const esm = Object.keys(await import(`../${entry}.mjs`)).sort();
    const { default: code } = await import(`../${entry}.cjs`);
    assert.deepEqual(Object.keys(code).sort(), esm);
    const declared = readFileSync(join(HERE, `${entry}.d.cts`), "utf8").matchAll(/^export (?:abstract )?(?:class|const|function) (\w+)/gm);
    assert.deepEqual([...new Set([...declared].map(([, name]) => name))].sort(), esm);
  }
});

npmTest("the declarations are what the code has, by the compiler", (t) => {
  const dir = folder(t, "types");
  const installed = npm(dir, "install", "--prefer-offline", ...TYPESCRIPT);
  if (installed.status !== 0) return t.skip(`npm cannot install ${TYPESCRIPT.join(" ")}: ${installed.stderr.trim().slice(0, 300)}`);
  const modules = join(dir, "node_modules");
  const args = [join(modules, "typescript/bin/tsc"), "-p", join(HERE, "test/types"), "--typeRoots", join(modules, "@types")];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 0, stdout);
});

/** What a program sees that has this in its tsconfig.json, and no types but ours. */
const SETTINGS = {
  "as it was resolved before Node.js had exports": { module: "commonjs", moduleResolution: "node10" },
  "by a bundler": { module: "esnext", moduleResolution: "bundler" },
  "without the types of browsers": { module: "node16", moduleResolution: "node16", lib: ["es2022"] },
};

npmTest("the declarations need those of Node.js for nothing, however they are found", (t) => {
  const dir = folder(t, "bare-types");
  const installed = npm(dir, "install", "--prefer-offline", TYPESCRIPT[0], tarball(dir));
  if (installed.status !== 0) return t.skip(`npm cannot install ${TYPESCRIPT[0]}: ${installed.stderr.trim().slice(0, 300)}`);
  rmSync(join(dir, "node_modules/@types"), { recursive: true, force: true });
  const program = `import { LineReader, Worker } from "ojs-worker";
import { devserver } from "ojs-worker/testing";
import { OJSWorker } from "ojs-worker/compat";
const worker = new Worker();
worker.job("t", async (job) => {
  const isAborted: boolean = job.signal.aborted || job.stopping.aborted;
  job.signal.addEventListener("abort", () => {}, { once: true });
  return isAborted;
});
export const url = async (): Promise<string> => (await devserver()).url;
export const lines = new LineReader().push(new Uint8Array(3));
export const sdk = new OJSWorker({});
`;
  writeFileSync(join(dir, "a.ts"), program);
  const compiler = join(dir, "node_modules/typescript/bin/tsc");
  for (const [how, settings] of Object.entries(SETTINGS)) {
    const compilerOptions = { strict: true, noEmit: true, target: "es2022", types: [], ...settings };
    writeFileSync(join(dir, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["a.ts"] }));
    const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", dir], { encoding: "utf8" });
    assert.equal(status, 0, `${how}: ${stdout}`);
  }
});

test("the example is under 25 lines", () => {
  assert.ok(readFileSync(join(HERE, "examples/worker.mjs"), "utf8").trim().split("\n").length < 25);
});
