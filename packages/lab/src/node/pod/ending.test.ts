import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { deadlineOf, nextToEnd } from "./ending.ts";

const pod: Pod = {
  metadata: { name: "p" },
  spec: {
    initContainers: [
      { name: "s1", restartPolicy: "Always" },
      { name: "i" },
      { name: "s2", restartPolicy: "Always" },
    ],
    containers: [{ name: "a" }, { name: "b" }],
  },
};

describe("the order in which containers end", () => {
  it("is: all but the sidecars at once, then the sidecars one by one, the last one first", () => {
    expect([...nextToEnd(pod, ["s1", "s2", "a", "b"])]).toEqual(["a", "b"]);
    expect([...nextToEnd(pod, ["s1", "s2", "b"])]).toEqual(["b"]);
    expect([...nextToEnd(pod, ["s1", "s2"])]).toEqual(["s2"]);
    expect([...nextToEnd(pod, ["s1"])]).toEqual(["s1"]);
  });

  it("stops every container exactly once, whatever is running", () => {
    fc.assert(
      fc.property(fc.subarray(["s1", "i", "s2", "a", "b"]), (names) => {
        const reported: string[] = [];
        for (
          let running = names;
          running.length > 0;
          running = running.filter((it) => !reported.includes(it))
        )
          reported.push(...nextToEnd(pod, running));
        expect(reported.toSorted()).toEqual(names.toSorted());
      }),
    );
  });
});

describe("the deadline of a pod", () => {
  it("counts from its start on the node", () => {
    const status = { startTime: "2026-01-01T00:00:00Z" };
    const spec = { containers: [], activeDeadlineSeconds: 5 };
    expect(deadlineOf({ metadata: { name: "p" }, spec, status })).toBe(Date.parse("2026-01-01T00:00:05Z"));
    expect(deadlineOf({ metadata: { name: "p" }, spec })).toBeUndefined();
    expect(deadlineOf({ ...pod, status })).toBeUndefined();
  });
});
