import { expect, it } from "vitest";
import { isGlobalNamespace } from "./global-namespace.ts";

const namespace = (value?: string) => ({
  metadata: value === undefined ? {} : { annotations: { "clustermesh.cilium.io/global": value } },
});

it.each([
  ["true", true],
  ["TRUE", true],
  ["True", true],
  ["false", false],
  ["", false],
  ["yes", false],
  ["1", false],
  [" true", false],
])("a namespace with the annotation %j is global: %j, whatever the default is", (value, expected) => {
  for (const byDefault of [true, false])
    expect(isGlobalNamespace(namespace(value), byDefault)).toBe(expected);
});

it("a namespace without the annotation, or one that cannot be read, is what the network's default says, and global without one", () => {
  for (const it of [namespace(), undefined]) {
    expect(isGlobalNamespace(it, true)).toBe(true);
    expect(isGlobalNamespace(it, false)).toBe(false);
    expect(isGlobalNamespace(it)).toBe(true);
  }
});
