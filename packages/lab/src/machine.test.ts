import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isFree, raiseInotifyLimit } from "./machine.ts";
import { ipv6Prefix } from "./topology.ts";

describe("a block of addresses", () => {
  it("is free when the machine routes nothing of it", () => {
    expect(isFree("demo", 64, ["192.168.0.0/16", "10.0.0.0/14"])).toBe(true);
  });
  it("is taken by a route inside it, and by one around it", () => {
    expect(isFree("demo", 64, ["10.66.3.0/24"])).toBe(false);
    expect(isFree("demo", 64, ["10.0.0.0/8"])).toBe(false);
  });
  it("is taken when its IPv6 half is", () => {
    expect(isFree("demo", 64, [`${ipv6Prefix("demo", 64)}:1::/64`])).toBe(false);
  });
});

describe("the limit of inotify instances", () => {
  it.for([
    { before: 128, after: 8192 },
    { before: 65_536, after: 65_536 },
  ])("of $before becomes $after", ({ before, after }) => {
    const folder = mkdtempSync(join(tmpdir(), "fairlead-limit-"));
    const file = join(folder, "max_user_instances");
    try {
      writeFileSync(file, `${before}\n`);
      raiseInotifyLimit(file);
      expect(readFileSync(file, "utf8")).toBe(`${after}\n`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("stays where it cannot be changed", () => {
    expect(() => raiseInotifyLimit("/proc/no-such-file")).not.toThrow();
  });
});
