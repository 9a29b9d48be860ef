import { describe, expect, it } from "vitest";
import { parseJsonPath } from "./jsonpath.ts";

const object = {
  metadata: { name: "a", labels: { "example.io/tier": "front" } },
  spec: {
    ports: [
      { name: "http", port: 80 },
      { name: "https", port: 443 },
    ],
    size: 0,
    off: false,
    none: null,
  },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Old", status: "False" },
    ],
  },
};

describe("a JSONPath", () => {
  it.each([
    [".metadata.name", ["a"]],
    ["metadata.name", ["a"]],
    ["{.metadata.name}", ["a"]],
    ["$.metadata.name", ["a"]],
    [".metadata.labels.example\\.io/tier", ["front"]],
    ["['metadata']['name']", ["a"]],
    [".spec.ports[1].port", [443]],
    [".spec.ports[-1].name", ["https"]],
    [".spec.ports[*].port", [80, 443]],
    [".spec.ports[0:1].port", [80]],
    [".spec.size", [0]],
    [".spec.off", [false]],
    [".spec.none", []],
    [".absent.deeper[3].x", []],
    ["..port", [80, 443]],
    [".metadata['name','absent']", ["a"]],
    [".spec.ports[*]['port', 'name']", [80, 443, "http", "https"]],
    [".spec.ports[1,0].port", [443, 80]],
    ['.status.conditions[?(@.type=="Ready")].status', ["True"]],
    [".status.conditions[?(@.type == 'Old')].status", ["False"]],
    [".spec.ports[?(@.port>100)].name", ["https"]],
    [".spec.ports[?(@.name)].port", [80, 443]],
  ])("%s", (path, expected) => {
    expect(parseJsonPath(path)(object)).toEqual(expected);
  });

  it.each(["{.a", ".a[", ".a[?(x)]", ".a[?(@.b==c)]", ".a b", ".a['b',c]", ".a['b',]"])(
    "%s is refused",
    (path) => {
      expect(() => parseJsonPath(path)).toThrow(expect.objectContaining({ code: "OPTION_INVALID" }));
    },
  );
});
