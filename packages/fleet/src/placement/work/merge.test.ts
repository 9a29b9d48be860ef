import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mergePatched } from "@fairlead/kube/client/patch.fake.ts";
import { mergePatchOf, mergeThree } from "./merge.ts";

const container = (name: string, more: object = {}): object => ({ name, image: `${name}:1`, ...more });
const pods = (containers: readonly object[]): object => ({ spec: { template: { spec: { containers } } } });
const service = (ports: readonly object[]): object => ({ spec: { ports } });

describe("a three-way merge", () => {
  it.each<[what: string, original: unknown, modified: unknown, current: unknown, merged: unknown]>([
    ["sets what the manifest says", {}, { a: 1 }, { a: 2 }, { a: 1 }],
    ["keeps what others set", { a: 1 }, { a: 1 }, { a: 1, b: 2 }, { a: 1, b: 2 }],
    ["removes what the manifest had and has no longer", { a: 1, b: 2 }, { a: 1 }, { a: 1, b: 2 }, { a: 1 }],
    ["removes nothing where the last manifest is unknown", undefined, { a: 1 }, { b: 2 }, { a: 1, b: 2 }],
    [
      "goes into maps",
      { m: { a: 1, b: 1 } },
      { m: { a: 2 } },
      { m: { a: 1, b: 1, c: 3 } },
      { m: { a: 2, c: 3 } },
    ],
    [
      "merges containers by their names, and keeps one that others injected in its place",
      pods([container("web"), container("old")]),
      pods([container("web", { tty: true })]),
      pods([container("sidecar"), container("web", { terminationMessagePath: "/x" }), container("old")]),
      pods([container("sidecar"), container("web", { tty: true, terminationMessagePath: "/x" })]),
    ],
    [
      "orders items as the manifest does",
      undefined,
      pods([container("b"), container("a")]),
      pods([container("a"), container("b")]),
      pods([container("b"), container("a")]),
    ],
    [
      "keeps the node port that the server gave to a port",
      service([{ port: 80 }]),
      service([{ port: 80, name: "http" }]),
      service([{ port: 80, protocol: "TCP", nodePort: 30000 }]),
      service([{ port: 80, protocol: "TCP", nodePort: 30000, name: "http" }]),
    ],
    [
      "tells ports of two protocols apart",
      undefined,
      service([{ port: 53, protocol: "UDP" }, { port: 53 }]),
      service([
        { port: 53, protocol: "TCP", nodePort: 1 },
        { port: 53, protocol: "UDP", nodePort: 2 },
      ]),
      service([
        { port: 53, protocol: "UDP", nodePort: 2 },
        { port: 53, protocol: "TCP", nodePort: 1 },
      ]),
    ],
    [
      "replaces a list without keys that differs",
      { list: [1, 2] },
      { list: [1] },
      { list: [1, 2] },
      { list: [1] },
    ],
    [
      "leaves a list without keys whose items only have defaults more",
      { rules: [{ a: 1 }] },
      { rules: [{ a: 1 }] },
      { rules: [{ a: 1, byServer: true }] },
      { rules: [{ a: 1, byServer: true }] },
    ],
    [
      "replaces a list of items with equal keys as a whole",
      undefined,
      pods([container("a"), container("a")]),
      pods([container("b")]),
      pods([container("a"), container("a")]),
    ],
    [
      "keeps finalizers of others",
      { metadata: { finalizers: ["a", "b"] } },
      { metadata: { finalizers: ["a"] } },
      { metadata: { finalizers: ["other", "a", "b"] } },
      { metadata: { finalizers: ["other", "a"] } },
    ],
    ["replaces a value of another type", { a: [1] }, { a: { b: 1 } }, { a: "x" }, { a: { b: 1 } }],
  ])("%s", (...[, original, modified, current, merged]) => {
    expect(mergeThree("apps", { original, modified, current })).toEqual(merged);
  });

  it("treats lists of custom resources as one value", () => {
    const [modified, current] = [
      pods([container("a")]),
      pods([container("b"), container("a", { tty: true })]),
    ];
    expect(mergeThree("example.com", { original: undefined, modified, current })).toEqual(modified);
  });

  const json = fc
    .jsonValue({ maxDepth: 3 })
    .map((it) => JSON.parse(JSON.stringify(it).replaceAll("null", "0")) as unknown);
  const map = fc.dictionary(fc.constantFrom("a", "b", "c"), json, { noNullPrototype: true });
  it("is at rest once merged, and its patch makes of the one object the other", () => {
    fc.assert(
      fc.property(map, map, map, (original, modified, current) => {
        const merged = mergeThree("", { original, modified, current });
        expect(mergeThree("", { original: modified, modified, current: merged })).toEqual(merged);
        const patch = mergePatchOf(current, merged) ?? {};
        expect(mergePatched(current, patch)).toEqual(merged);
      }),
    );
  });
});
