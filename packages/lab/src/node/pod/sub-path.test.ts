import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSubPath } from "./sub-path.ts";
import { writeVolume } from "./volume-writer.ts";

let root: string;
let volume: string;
let outside: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "fairlead-sub-path-"));
  volume = join(root, "volume");
  outside = join(root, "outside");
  mkdirSync(volume);
  mkdirSync(outside);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** The path of what was opened. */
function opened(path: string, canCreate = true): string {
  const fd = openSubPath(volume, { path, canCreate });
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

function isOpened(path: string, canCreate: boolean): boolean {
  try {
    opened(path, canCreate);
    return true;
  } catch {
    return false;
  }
}

/** Puts a link in the place of a folder, and the folder back, again and again: a program of the pod. */
const SWAPS = `
const { renameSync } = require("node:fs");
const { workerData: { folder, link, aside, stop } } = require("node:worker_threads");
while (Atomics.load(stop, 0) === 0) {
  renameSync(folder, aside);
  renameSync(link, folder);
  renameSync(folder, link);
  renameSync(aside, folder);
}
`;
const TRIES = 1000;
/** Folders on the way, which are opened one by one: the time between the check and the end of it. */
const DEPTH = 64;

describe("what a subPath names", () => {
  it("is created if it is missing in an empty volume, and only there", () => {
    expect(opened("new/folder")).toBe(join(volume, "new", "folder"));
    expect(opened("./new//folder/")).toBe(join(volume, "new", "folder"));
    expect(() => opened("other", false)).toThrow('subPath "other" is not in the volume');
  });

  it("may be reached by links inside the volume, as those of a ConfigMap are", () => {
    const file = { content: Buffer.from("1"), mode: 0o644 };
    writeVolume(volume, { kind: "files", files: new Map([["a", file]]) });
    expect(opened("a", false)).toMatch(/\/volume\/\.\.files-\w+\/a$/);
    mkdirSync(join(volume, "real"));
    symlinkSync("real", join(volume, "link"));
    expect(opened("link/made")).toBe(join(volume, "real", "made"));
  });

  it("never lies outside the volume, and nothing is made there on the way", () => {
    symlinkSync(outside, join(volume, "out"));
    symlinkSync("../outside", join(volume, "up"));
    symlinkSync(join(root, "nowhere"), join(volume, "nowhere"));
    symlinkSync("loop", join(volume, "loop"));
    writeFileSync(join(volume, "file"), "");
    const made = ["out/made", "up/made", "out", "nowhere/made", "nowhere", "loop/made", "loop", "file/made"];
    for (const path of [...made, "../outside", "/etc", "a/../../outside"])
      for (const canCreate of [true, false]) expect(isOpened(path, canCreate)).toBe(false);
    expect(readdirSync(outside)).toEqual([]);
    expect(existsSync(join(root, "nowhere"))).toBe(false);
  });

  it("is in the volume whatever a program puts there during the check", async () => {
    const way = Array.from({ length: DEPTH }, () => "d").join("/");
    const [folder, link, aside] = [join(volume, way, "folder"), join(volume, "link"), join(volume, "aside")];
    mkdirSync(folder, { recursive: true });
    symlinkSync(outside, link);
    const stop = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(SWAPS, { eval: true, workerData: { folder, link, aside, stop } });
    const ended = once(worker, "exit");
    await once(worker, "online");
    const places = new Set<string>();
    let refused = 0;
    for (let tries = 0; tries < TRIES; tries++)
      try {
        places.add(opened(`${way}/folder`, false));
      } catch {
        refused += 1;
      }
    Atomics.store(stop, 0, 1);
    await ended;
    // It was not in time for each of them, or always.
    expect(refused).toBeGreaterThan(0);
    expect(refused).toBeLessThan(TRIES);
    expect([...places].filter((it) => !it.startsWith(`${volume}/`))).toEqual([]);
  });
});
