import { describe, expect, it } from "vitest";
import { choosePath, type DirectPath } from "./path-choice.ts";

const RELAY = { address: "192.0.2.1", port: 40_001 };
const NEAR = { address: "198.51.100.1", port: 31_821 };
const FAR = { address: "198.51.100.2", port: 31_821 };

function direct(endpoint: DirectPath["endpoint"], more: Partial<DirectPath> = {}): DirectPath {
  return { endpoint, silentSinceMs: undefined, answers: 3, rttMs: 10, ...more };
}

const VIEW = { nowMs: 100_100, relay: RELAY, tcp: undefined, current: RELAY };

describe("the path of a tunnel", () => {
  it("begins at the relay", () => {
    expect(choosePath({ ...VIEW, direct: [], current: undefined })).toEqual({
      kind: "relay",
      endpoint: RELAY,
    });
  });

  it("becomes direct after three answers in a row, to the nearest address", () => {
    expect(choosePath({ ...VIEW, direct: [direct(NEAR, { answers: 2 })] })?.kind).toBe("relay");
    expect(choosePath({ ...VIEW, direct: [direct(FAR), direct(NEAR, { rttMs: 2 })] })).toEqual({
      kind: "direct",
      endpoint: NEAR,
    });
  });

  it("is not moved to a direct path that is a little faster", () => {
    const paths = [direct(FAR), direct(NEAR, { rttMs: 2 })];
    expect(choosePath({ ...VIEW, direct: paths, current: FAR })?.endpoint).toEqual(FAR);
  });

  it("returns to the relay when a direct path has left three probes without an answer, and stays there for 30 s", () => {
    const silent = direct(NEAR, { silentSinceMs: 99_000 });
    expect(choosePath({ ...VIEW, direct: [silent], current: NEAR })?.kind).toBe("relay");
    const back = direct(NEAR, { failedAtMs: 100_000 - 20_000 });
    expect(choosePath({ ...VIEW, direct: [back] })?.kind).toBe("relay");
    expect(choosePath({ ...VIEW, direct: [{ ...back, failedAtMs: 100_000 - 30_000 }] })?.kind).toBe("direct");
  });

  it("is TLS while there is neither a direct path nor a relay that answers", () => {
    const tcp = { address: "127.0.0.1", port: 40_000 };
    expect(choosePath({ ...VIEW, direct: [], tcp })?.kind).toBe("relay");
    expect(choosePath({ ...VIEW, direct: [], relay: undefined, tcp })).toEqual({
      kind: "tcp",
      endpoint: tcp,
    });
    expect(choosePath({ ...VIEW, direct: [direct(NEAR)], relay: undefined, tcp })?.kind).toBe("direct");
  });

  it("is unknown without any of them", () => {
    expect(choosePath({ ...VIEW, direct: [], relay: undefined })).toBeUndefined();
  });
});
