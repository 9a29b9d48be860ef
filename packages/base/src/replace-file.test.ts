import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { replaceFileSync } from "./replace-file.ts";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-replace-"));
  file = join(folder, "it");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("replaces a file, also over the draft of a process that was killed", () => {
  replaceFileSync(file, "first");
  writeFileSync(`${file}.new`, "a longer draft");
  replaceFileSync(file, "second");
  expect([readFileSync(file, "utf8"), readdirSync(folder)]).toEqual(["second", ["it"]]);
});

it("leaves the former content until the new one is complete", () => {
  replaceFileSync(file, "first");
  const { ino } = statSync(file);
  mkdirSync(`${file}.new`);
  expect(() => replaceFileSync(file, "second")).toThrow(/EISDIR/);
  expect(readFileSync(file, "utf8")).toBe("first");
  rmSync(`${file}.new`, { recursive: true });
  replaceFileSync(file, "second");
  expect(statSync(file).ino).not.toBe(ino);
});

it("makes a file that only its owner reads, unless a mode is given", () => {
  replaceFileSync(file, "");
  replaceFileSync(`${file}-2`, "", 0o700);
  expect([statSync(file).mode & 0o777, statSync(`${file}-2`).mode & 0o777]).toEqual([0o600, 0o700]);
});
