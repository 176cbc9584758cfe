// The code in the README runs as it stands there. clients/fixtures/enqueue.py runs the section
// "Enqueueing".

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(HERE, "README.md"), "utf8");

/** The first code block below a heading; without a heading the first of all. */
function block(heading = "") {
  const [, code] = /```js\n([^]*?)```/.exec(readme.slice(readme.indexOf(heading)));
  return code;
}

/** Runs a module beside the README's worker. */
function run(t, code) {
  const dir = mkdtempSync(join(tmpdir(), "ojs-readme-"));
  t.after(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, "node_modules"));
  symlinkSync(HERE, join(dir, "node_modules/ojs-worker"));
  writeFileSync(join(dir, "worker.mjs"), block());
  writeFileSync(join(dir, "test.mjs"), code);
  const { OJS_SOCKET: _, ...env } = process.env;
  return execFileSync(process.execPath, ["test.mjs"], { cwd: dir, env, encoding: "utf8" });
}

test("the test of the first worker passes", (t) => {
  run(t, block("## Tests of handlers"));
});

test("the listener, the middleware and the resumable handler run", (t) => {
  const code = `import { Worker } from "ojs-worker";
    const worker = new Worker();
    const ran = [];
    const withConnection = async (body) => (ran.push("connected"), await body());
    const download = async (url) => url;
    const rowsOf = (path) => [{ id: path + 1 }, { id: path + 2 }];
    const insert = async (row) => ran.push(row.id);
    ${block("## Outcomes")} ${block("## Work that goes on")}
    const { outcome } = await worker.perform("import", ["x"]);
    console.log(outcome, ran.join());`;
  assert.equal(run(t, code).trim(), "ack connected,x1,x2");
});

test("the rows behind a key begin with the first row, in the order of the key", () => {
  const [, rows] = /function of the last key[^`]*`null`[^`]*`(\(after\) => [^`]*)`/.exec(readme);
  // In SQL nothing is greater than NULL.
  const query = (sql, [after]) => (assert.match(sql, /ORDER BY id$/), after === null ? [] : [1, 2, 3].filter((id) => id > after));
  const behind = new Function("query", `return ${rows}`)(query);
  assert.deepEqual([behind(null), behind(2)], [[1, 2, 3], [3]]);
});

test("the README has less than 120 lines, and the example less than 25", () => {
  assert.ok(readme.split("\n").length < 120);
  assert.ok(readFileSync(join(HERE, "examples/worker.mjs"), "utf8").split("\n").length < 25);
});

test("the version in the code is the package's", async () => {
  const { VERSION } = await import("../ojs-worker.mjs");
  assert.equal(VERSION, JSON.parse(readFileSync(join(HERE, "package.json"), "utf8")).version);
});
