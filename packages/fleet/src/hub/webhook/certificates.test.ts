import { X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { due, issue } from "./certificates.ts";

const DAY_MS = 86_400_000;
const NAMES = ["127.0.0.1"];

describe("the certificate of the webhook", () => {
  it("is valid for an API server whose clock is a day behind or ahead", async () => {
    const clock = new FakeClock();
    const { authority, pair } = await issue(NAMES, clock);
    for (const pem of [authority, pair.cert]) {
      const { validFromDate, validToDate } = new X509Certificate(pem);
      expect(validFromDate.getTime()).toBeLessThan(clock.now() - DAY_MS);
      expect(validToDate.getTime()).toBeGreaterThan(clock.now() + DAY_MS);
    }
  });

  it("is replaced at once if it was made while the clock was ahead, and is not valid yet", async () => {
    const clock = new FakeClock();
    const { authority, pair } = await issue(NAMES, new FakeClock(clock.now() + 30 * DAY_MS));
    const certificates = { authorities: [authority], current: pair, next: undefined };
    expect(due(certificates, NAMES, clock.now())).toBe("create");
    expect(due(certificates, NAMES, clock.now() + 30 * DAY_MS)).toBe("nothing");
  });
});
