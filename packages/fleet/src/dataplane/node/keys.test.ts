import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadKeys } from "./keys.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-keys-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the keys of a gateway", () => {
  it("are made once for each epoch, and readable by their owner alone", async () => {
    const first = await loadKeys(folder, 1, Date.now());
    expect([...first.keys()]).toEqual([1]);
    expect(await loadKeys(folder, 1, Date.now())).toEqual(first);
    expect(statSync(join(folder, "key-1")).mode & 0o777).toBe(0o600);
  });

  it("of two epochs are there until the new one has been in use for ten minutes", async () => {
    const before = await loadKeys(folder, 1, Date.now());
    const both = await loadKeys(folder, 2, Date.now());
    expect([...both.keys()].toSorted((a, b) => a - b)).toEqual([1, 2]);
    expect(both.get(1)).toBe(before.get(1));
    const later = Date.now() + 601_000;
    expect([...(await loadKeys(folder, 2, later)).keys()]).toEqual([2]);
    expect([...(await loadKeys(folder, 3, Date.now())).keys()].toSorted((a, b) => a - b)).toEqual([2, 3]);
    expect(readdirSync(folder).toSorted()).toEqual(["key-2", "key-3"]);
  });

  it("of two epochs are there no longer because the clock was ahead when the new one was made", async () => {
    await loadKeys(folder, 1, Date.now());
    await loadKeys(folder, 2, Date.now());
    const yesterday = Date.now() - 86_400_000;
    expect((await loadKeys(folder, 2, yesterday)).size).toBe(2);
    expect([...(await loadKeys(folder, 2, yesterday + 601_000)).keys()]).toEqual([2]);
  });
});
