import { expect, it } from "vitest";
import { vethName } from "./names.ts";

it("devices of pods have names that fit Linux, differ by UID and never look like other devices of the namespace", () => {
  const names = Array.from({ length: 5000 }, (_, at) => vethName(`uid-${at}`));
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^fl[0-9a-v]{11}$/);
  expect(vethName("6ba7b810-9dad-11d1-80b4-00c04fd430c8")).toBe("flsm2lvt47j72");
});
