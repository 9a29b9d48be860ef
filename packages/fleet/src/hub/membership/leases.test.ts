import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LeaseTracker } from "./leases.ts";

const leaseMs = 5000;

function renew(tracker: LeaseTracker, atMs: number): void {
  tracker.observe("a", { renewTime: String(atMs), leaseMs }, atMs);
}

describe("a member's lease", () => {
  it("is unknown until it is seen, and alive while it is renewed", () => {
    const tracker = new LeaseTracker();
    expect(tracker.verdict("a", 0)).toEqual({ liveness: "unknown", againInMs: undefined });
    renew(tracker, 0);
    expect(tracker.verdict("a", 1000)).toEqual({ liveness: "alive", againInMs: 4000 });
  });

  it("makes the member suspect one lease after the last renewal", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    renew(tracker, 2000);
    expect(tracker.verdict("a", 6999).liveness).toBe("alive");
    expect(tracker.verdict("a", 7000)).toEqual({ liveness: "suspect", againInMs: undefined });
  });

  it("counts changes of the renewal time only: seeing the same one again proves nothing", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    tracker.observe("a", { renewTime: "0", leaseMs }, 4000);
    expect(tracker.verdict("a", 5000).liveness).toBe("suspect");
  });

  it("is trusted again after it was renewed for the length of a lease without a gap", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    expect(tracker.verdict("a", 9000).liveness).toBe("suspect");
    renew(tracker, 10_000);
    expect(tracker.verdict("a", 10_000)).toEqual({ liveness: "suspect", againInMs: 5000 });
    renew(tracker, 12_000);
    renew(tracker, 14_000);
    expect(tracker.verdict("a", 14_999).liveness).toBe("suspect");
    expect(tracker.verdict("a", 15_000).liveness).toBe("alive");
  });

  it("has to prove itself from the start when it falls silent again", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    tracker.verdict("a", 9000);
    renew(tracker, 10_000);
    renew(tracker, 16_000);
    expect(tracker.verdict("a", 16_000).liveness).toBe("suspect");
    expect(tracker.verdict("a", 20_999).liveness).toBe("suspect");
    expect(tracker.verdict("a", 21_000).liveness).toBe("suspect");
  });

  it("that was suspect for the hub before this one is suspect until it proves itself", () => {
    const tracker = new LeaseTracker();
    tracker.inherit("a");
    expect(tracker.verdict("a", 0).liveness).toBe("suspect");
    renew(tracker, 0);
    expect(tracker.verdict("a", 0).liveness).toBe("suspect");
    renew(tracker, 1000);
    renew(tracker, 4000);
    expect(tracker.verdict("a", 5999).liveness).toBe("suspect");
    expect(tracker.verdict("a", 6000).liveness).toBe("alive");
  });

  it("is overdue until the Lease has been read, and alive where renewals are read late", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    expect(tracker.isOverdue("a", 4999)).toBe(false);
    expect(tracker.isOverdue("a", 20_000)).toBe(true);
    for (const renewTime of ["2000", "4000"]) tracker.observe("a", { renewTime, leaseMs }, 20_000);
    expect(tracker.isOverdue("a", 20_000)).toBe(false);
    expect(tracker.verdict("a", 20_000)).toEqual({ liveness: "alive", againInMs: 5000 });
  });

  it("lasts one full lease from when the API server is back, once until it is renewed, unless the member was suspect before", () => {
    const tracker = new LeaseTracker();
    renew(tracker, 0);
    for (const atMs of [20_000, 21_000, 24_000]) tracker.forgive(atMs);
    expect(tracker.verdict("a", 24_999).liveness).toBe("alive");
    expect(tracker.verdict("a", 25_000).liveness).toBe("suspect");
    tracker.forgive(26_000);
    expect(tracker.verdict("a", 26_000).liveness).toBe("suspect");
  });

  it("of a hub that begins gets one full lease of time, whatever the Lease says", () => {
    const tracker = new LeaseTracker();
    tracker.observe("a", { renewTime: "long ago", leaseMs }, 100_000);
    expect(tracker.verdict("a", 104_999).liveness).toBe("alive");
    expect(tracker.verdict("a", 105_000).liveness).toBe("suspect");
  });

  it("never makes a member suspect that renews in time, and always one that does not", () => {
    const gaps = fc.array(fc.integer({ min: 1, max: 9000 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(gaps, (list) => {
        const tracker = new LeaseTracker();
        let atMs = 0;
        let hasFailed = false;
        renew(tracker, atMs);
        for (const gap of list) {
          const before = tracker.verdict("a", atMs + gap).liveness;
          if (gap >= leaseMs) {
            hasFailed = true;
            expect(before).toBe("suspect");
          }
          if (!hasFailed) expect(before).toBe("alive");
          atMs += gap;
          renew(tracker, atMs);
        }
      }),
    );
  });
});
