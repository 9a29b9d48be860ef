import { describe, expect, it } from "vitest";
import { checkPermissionsGranted, permissionsDigest } from "./digest.ts";

const NONE = { installsNodes: false, setsTaints: false, places: false };

describe("the digest of a member's permissions", () => {
  it("differs for each task that needs more of them", () => {
    const tasks = [
      NONE,
      { ...NONE, installsNodes: true },
      { ...NONE, setsTaints: true },
      { ...NONE, places: true },
    ];
    expect(new Set(tasks.map(permissionsDigest)).size).toBe(tasks.length);
  });

  it("lets an agent run whose release needs what was granted, and one of which that is not known", () => {
    for (const granted of [permissionsDigest(NONE), "", undefined])
      expect(() => checkPermissionsGranted(granted, NONE)).not.toThrow();
  });

  it("lets an agent run that has fewer tasks than it was installed for, and none that has more", () => {
    const all = { installsNodes: true, setsTaints: true, places: true };
    const some = { ...all, places: false };
    expect(() => checkPermissionsGranted(permissionsDigest(all), some)).not.toThrow();
    expect(() => checkPermissionsGranted(permissionsDigest(some), all)).toThrow("needs other permissions");
  });

  it("ends an agent of a release that needs others, with the command that grants them", () => {
    expect(() => checkPermissionsGranted("0123456789abcdef", NONE)).toThrow(
      /^fairlead member \S+ needs other permissions .*: run "fairlead join" of release \S+ again$/,
    );
  });
});
