import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { keepPresence } from "./presence.ts";

const NAMESPACE = "fleet-system";
const NAME = "fairlead-hub";
const KEY = objectKey(NAMESPACE, NAME);
/** Longer than between two renewals. Unit: milliseconds. */
const PERIOD_MS = 2500;

describe("the Lease of a program that runs alone", () => {
  it("is read once, renewed by one request each time, and made again when it was deleted", async () => {
    const clock = new FakeClock();
    const client = new FakeKubeClient(clock);
    let reads = 0;
    const find = client.find.bind(client);
    client.find = (...request) => {
      reads += 1;
      return find(...request);
    };
    const stop = new AbortController();
    const lease = { namespace: NAMESPACE, name: NAME, identity: "me", annotations: { version: "1" } };
    const running = keepPresence(client, lease, { clock, log: silentLogger }, stop.signal);
    const renewals = new Set<string | undefined>();
    for (let at = 0; at < 5; at += 1) {
      await clock.advance(PERIOD_MS);
      const { metadata, spec } = await client.get(LEASES, KEY);
      expect(metadata.annotations).toEqual({ version: "1" });
      renewals.add(spec?.renewTime);
    }
    expect(renewals.size).toBe(5);
    expect(reads).toBe(1);
    // Another one writes it: the next renewal is refused, and reads it.
    await client.mergePatch(LEASES, KEY, { metadata: { annotations: { other: "2" } } });
    await clock.advance(2 * PERIOD_MS);
    expect((await client.get(LEASES, KEY)).metadata.annotations).toEqual({ version: "1", other: "2" });
    expect(reads).toBe(2);
    await client.delete(LEASES, KEY);
    await clock.advance(2 * PERIOD_MS);
    expect((await client.get(LEASES, KEY)).spec?.holderIdentity).toBe("me");
    stop.abort();
    await running;
  });
});
