import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { ageOf, findHubProgram, HUB_LEASE, type HubProgram } from "./hub-program.ts";

const NOW_MS = Date.parse("2026-01-01T00:01:00Z");
const at = (ageMs: number): string => new Date(NOW_MS - ageMs).toISOString();

function lease(renewTime: string, written?: string): Lease {
  const managedFields = written === undefined ? [] : [{ manager: "fairlead-hub", time: written }];
  return {
    metadata: { ...splitKey(HUB_LEASE), managedFields } as Lease["metadata"],
    spec: { holderIdentity: "hub-0", renewTime },
  };
}

describe("the age of the Lease of the hub", () => {
  it.each([
    ["its time", lease(at(3000)), 3000],
    ["that of the last write, where the clock of the program is behind", lease(at(300_000), at(3000)), 3000],
    ["the same where it is ahead", lease(at(-300_000), at(3000)), 3000],
    ["its time, where the server does not renew that of a write", lease(at(3000), at(300_000)), 3000],
    ["ten seconds at most", lease(at(300_000), at(300_000)), 10_000],
  ])("is by %s", (_, of, expected) => {
    expect(ageOf(of, NOW_MS)).toBe(expected);
  });
});

/** @returns what is found, and after how many milliseconds. */
async function found(of: Lease): Promise<readonly [HubProgram["state"], number]> {
  const clock = new FakeClock(NOW_MS);
  const client = new FakeKubeClient(clock);
  client.seed(LEASES, of);
  const began = clock.monotonic();
  let ended = 0;
  const deps = { ...systemDeps(silentLogger), clock };
  const pending = findHubProgram(client, deps, new AbortController().signal).then((it) => {
    ended = clock.monotonic();
    return it;
  });
  for (let step = 0; step < 24; step += 1) await clock.advance(500);
  return [(await pending).state, ended - began];
}

it("a hub that is dead is found so ten seconds after its last renewal, and after four seconds at least", async () => {
  expect(await found(lease(at(1000)))).toEqual(["Running", 0]);
  expect(await found(lease(at(5500)))).toEqual(["Dead", 4500]);
  expect(await found(lease(at(3_600_000)))).toEqual(["Dead", 4000]);
});
