import assert from "node:assert/strict";
import test from "node:test";
import { LineReader, parseJson, toJson } from "../ojs-worker.mjs";

test("integers beyond 2^53 keep every digit, all else is as in JSON.parse", () => {
  const name = '"12345678901234567890"';
  const text = `{"a":[9007199254740993,-9007199254740993,9007199254740991],"b":{${name}:${name}}}`;
  const value = parseJson(text);
  assert.deepEqual(value.a, [9007199254740993n, -9007199254740993n, 9007199254740991]);
  assert.deepEqual(value.b, { "12345678901234567890": "12345678901234567890" });
  assert.equal(toJson(value), text);
});

test("numbers in strings, fractions and exponents are no large integers", () => {
  const mixed = '["\\\\",1.0000000000000000001,10000000000000000e5,"\\\\\\""]';
  for (const text of ['"\\"9007199254740993"', mixed, "0.12345678901234567"]) {
    assert.deepEqual(parseJson(text), JSON.parse(text));
  }
  assert.deepEqual(parseJson('["\\\\",9007199254740993]'), ["\\", 9007199254740993n]);
});

test("what JSON.parse refuses is refused", () => {
  for (const text of ["012345678901234567890", '"12345678901234567890', "-", "[12345678901234567890,]", "NaN"]) {
    assert.throws(() => parseJson(text), SyntaxError);
  }
});

test("a field named __proto__ is a field", () => {
  const value = parseJson('{"__proto__":{"x":9007199254740993}}');
  assert.deepEqual(Object.keys(value), ["__proto__"]);
  assert.equal(value.x, undefined);
});

test("strings of megabytes", () => {
  const text = `["${'\\"'.repeat(2_000_000)}",12345678901234567890]`;
  assert.equal(toJson(parseJson(text)), text);
});

test("toJson as JSON.stringify", () => {
  assert.equal(toJson(undefined), undefined);
  assert.equal(toJson(() => {}), undefined);
  assert.equal(toJson(5n), "5");
  const circular = { n: 1n };
  circular.self = circular;
  assert.throws(() => toJson(circular), TypeError);
});

test("lines from pieces of every size", () => {
  const bytes = Buffer.from("é\n\n日本\r\n😀 rest");
  for (let size = 1; size <= bytes.length; size++) {
    const reader = new LineReader();
    const lines = [];
    for (let at = 0; at < bytes.length; at += size) lines.push(...reader.push(bytes.subarray(at, at + size)));
    assert.deepEqual(lines, ["é", "", "日本\r"]);
  }
});
