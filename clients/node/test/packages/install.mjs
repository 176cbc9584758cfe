// Installs the packed client, and the packages that it is tried with, into $CLIENT_OUT/packages.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGES = [
  "typescript@5.9.3",
  "@types/node@18.19.130",
  "eslint@9.39.1",
  "@eslint/js@9.39.1",
  "publint@0.3.25",
  "@arethetypeswrong/cli@0.18.5",
  "@nestjs/common@11.1.9",
  "@nestjs/core@11.1.9",
  "reflect-metadata@0.2.2",
  "rxjs@7.8.2",
  "@opentelemetry/api@1.9.0",
  "@opentelemetry/sdk-trace-node@2.2.0",
  "zod@4.1.12",
  "valibot@1.1.0",
];

export const HERE = fileURLToPath(new URL("../..", import.meta.url));
const OUT = process.env.CLIENT_OUT ?? mkdtempSync(join(tmpdir(), "ojs-node-"));
if (!process.env.CLIENT_OUT) process.on("exit", () => rmSync(OUT, { recursive: true, force: true }));
export const DIR = join(OUT, "packages");

/** Runs a command and gives its output. It fails the test if the command fails. */
export function run(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: DIR, encoding: "utf8", timeout: 240_000, ...options });
  assert.equal(status, 0, `${command} ${args.join(" ")}: ${error ?? ""}\n${stdout}\n${stderr}`);
  return stdout;
}

/** The program of an installed package. */
export const bin = (name) => join(DIR, "node_modules/.bin", name);

/** Loads an installed package. */
export const load = createRequire(join(DIR, "load.cjs"));

/**
 * Packages are installed once for each list of them; the client is packed anew each time.
 * @returns {string} the path of the packed client; its sources are in DIR/source
 */
export function install() {
  rmSync(join(DIR, "source"), { recursive: true, force: true });
  cpSync(HERE, join(DIR, "source"), { recursive: true, filter: (path) => !path.endsWith("node_modules") });
  const stamp = JSON.stringify({ private: true, description: PACKAGES.join(" ") });
  if (!existsSync(join(DIR, "installed")) || readFileSync(join(DIR, "installed"), "utf8") !== stamp) {
    const quiet = ["--prefer-offline", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", "--no-package-lock"];
    writeFileSync(join(DIR, "package.json"), stamp);
    run("npm", ["install", ...quiet, ...PACKAGES]);
    writeFileSync(join(DIR, "installed"), stamp);
  }
  for (const name of readdirSync(DIR)) if (name.endsWith(".tgz")) rmSync(join(DIR, name));
  run("npm", ["pack", "--loglevel=error", "--pack-destination", DIR], { cwd: HERE });
  const [tarball] = readdirSync(DIR).filter((name) => name.endsWith(".tgz"));
  const place = join(DIR, "node_modules/ojs-worker");
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place);
  run("tar", ["-xzf", tarball, "-C", place, "--strip-components=1"]);
  return join(DIR, tarball);
}
