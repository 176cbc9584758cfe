import assert from "node:assert/strict";
import test from "node:test";
import { parseJson, toJson } from "../ojs-worker.mjs";

test("integers beyond 2^53 keep every digit, and everything else is as in JSON.parse", () => {
  const name = '"12345678901234567890"';
  const text = `{"a":[9007199254740993,-9007199254740993,9007199254740991],"b":{${name}:${name}}}`;
  const value = parseJson(text);
  assert.deepEqual(value.a, [9007199254740993n, -9007199254740993n, 9007199254740991]);
  assert.equal(toJson(value), text);
  const mixed = '["\\\\",1.0000000000000000001,10000000000000000e5,"\\\\\\""]';
  for (const same of ['"\\"9007199254740993"', mixed, "0.12345678901234567"]) {
    assert.deepEqual(parseJson(same), JSON.parse(same));
  }
});

test("JSON that JSON.parse refuses is refused", () => {
  for (const text of ["012345678901234567890", '"12345678901234567890', "-", "[12345678901234567890,]", "NaN"]) {
    assert.throws(() => parseJson(text), SyntaxError);
  }
});

test("a string of megabytes beside a large integer", () => {
  const text = `["${'\\"'.repeat(2_000_000)}",12345678901234567890]`;
  assert.equal(toJson(parseJson(text)), text);
});
