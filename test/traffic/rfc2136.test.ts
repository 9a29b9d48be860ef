import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { answering } from "@fairlead/fleet/domain/answering.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { TrafficName, TrafficProvider } from "@fairlead/fleet/hub/traffic-manager/provider.ts";
import { Primary } from "@fairlead/fleet/hub/traffic-manager/providers/rfc2136/exchange.ts";
import { createRfc2136Provider } from "@fairlead/fleet/hub/traffic-manager/providers/rfc2136/provider.ts";
import type { TsigKey } from "@fairlead/dns/wire/tsig.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { type Bind, startBind } from "./bind.ts";
import { describeProvider, target } from "./contract.ts";

const ZONE = "tm.example";
const never = new AbortController().signal;
const client = new FakeKubeClient();
/** Moves slices of time on; signatures need the true time. */
const clock = new FakeClock();
const deps = { ...systemDeps(silentLogger), clock };
const programmed = new Map<string, TrafficName>();
let bind: Bind;
let provider: TrafficProvider;

async function create(more: { owner?: string; key?: TsigKey; zone?: string } = {}): Promise<TrafficProvider> {
  const { key = bind.key, zone = ZONE, owner } = more;
  const primary = new Primary({ host: "127.0.0.1", port: bind.port, key }, systemClock);
  const made = createRfc2136Provider(
    client,
    { primary, zone, ...(owner === undefined ? {} : { owner }) },
    deps,
  );
  await made.start(never);
  return made;
}

beforeAll(async () => {
  client.seed(NAMESPACES, { metadata: { name: "kube-system" } });
  bind = await startBind(ZONE);
  provider = await create();
});
afterAll(() => bind?.[Symbol.asyncDispose]());

/** Remembers the last request, so that it can be repeated as time advances. */
const remembering = (): Pick<TrafficProvider, "program" | "withdraw"> => ({
  program: (name, signal) => {
    programmed.set(name.label, name);
    return provider.program(name, signal);
  },
  withdraw: (label, signal) => {
    programmed.delete(label);
    return provider.withdraw(label, signal);
  },
});

/** Over slices of time and the records of each: clients take any of an answer's records. */
async function shares(label: string): Promise<ReadonlyMap<string, number> | undefined> {
  const counts = new Map<string, number>();
  const name = programmed.get(label);
  const weights = new Set(answering(name?.targets ?? []).map((it) => it.weight));
  const slices = weights.size > 1 ? 89 : 1;
  for (let slice = 0; slice < slices; slice++) {
    if (slice > 0 && name !== undefined) {
      await clock.advance(60_000);
      await provider.program(name, never);
    }
    const { status, data } = await bind.dig(`${label}.${ZONE}`, "A");
    if (status === "NXDOMAIN") return undefined;
    for (const address of data) counts.set(address, (counts.get(address) ?? 0) + 1 / data.length / slices);
  }
  return counts;
}

describe("updates of a zone of BIND", () => {
  describeProvider(() => ({
    provider: remembering(),
    shares,
    occupy: (label) => bind.nsupdate(`update add ${label}.${ZONE} 60 A 192.0.2.99`),
    damage: (label) => bind.nsupdate(`update delete ${label}.${ZONE} A`),
  }));

  const name = (label: string, ...targets: TrafficName["targets"]): TrafficName => ({
    label,
    profile: objectKey("work", label),
    ttlSeconds: 60,
    targets,
  });

  it("leave records of other types alone, also when the name is removed", async () => {
    await provider.program(name("mixed", target(1)), never);
    await bind.nsupdate(`update add mixed.${ZONE} 300 TXT "not ours"`);
    await provider.program(name("mixed", target(2)), never);
    await provider.withdraw("mixed", never);
    expect((await bind.dig(`mixed.${ZONE}`, "TXT")).data).toEqual(['"not ours"']);
    expect((await bind.dig(`mixed.${ZONE}`, "A")).data).toEqual([]);
  });

  it("remove addresses that others added to one of our names, because no health check covers them", async () => {
    await provider.program(name("extra", target(1)), never);
    await bind.nsupdate(`update add extra.${ZONE} 60 A 192.0.2.66`);
    expect(await provider.program(name("extra", target(1)), never)).toMatchObject({ changed: true });
    expect((await bind.dig(`extra.${ZONE}`, "A")).data).toEqual(["192.0.2.1"]);
  });

  it("restore the TTL of records", async () => {
    await provider.program(name("ttl", target(1)), never);
    await bind.nsupdate(`update delete ttl.${ZONE} A`, `update add ttl.${ZONE} 9 A 192.0.2.1`);
    expect(await provider.program(name("ttl", target(1)), never)).toMatchObject({ changed: true });
    expect(await provider.program(name("ttl", target(1)), never)).toMatchObject({ changed: false });
  });

  it("give both families, and an alias for a load balancer with a domain, in place of each other", async () => {
    const dual = target(1, { addresses: ["192.0.2.1", "192.0.2.11", "2001:db8::1"] });
    await provider.program(name("alias", dual), never);
    expect((await bind.dig(`alias.${ZONE}`, "A")).data).toEqual(["192.0.2.1", "192.0.2.11"]);
    expect((await bind.dig(`alias.${ZONE}`, "AAAA")).data).toEqual(["2001:db8::1"]);
    const { addresses: _none, ...named } = target(2, { hostname: "lb.example.net" });
    await provider.program(name("alias", named), never);
    expect((await bind.dig(`alias.${ZONE}`, "CNAME")).data).toEqual(["lb.example.net."]);
    expect(await provider.program(name("alias", named), never)).toMatchObject({ changed: false });
    await provider.program(name("alias", dual), never);
    expect((await bind.dig(`alias.${ZONE}`, "AAAA")).data).toEqual(["2001:db8::1"]);
  });

  it("do not touch a name of another fleet in the same zone", async () => {
    const other = await create({ owner: "another-hub" });
    await other.program(name("theirs", target(5)), never);
    const outcome = await provider.program(name("theirs", target(1)), never);
    expect(outcome).toMatchObject({ kind: "taken" });
    expect(outcome).toHaveProperty("message", expect.stringContaining("another-hub"));
    await provider.withdraw("theirs", never);
    expect((await bind.dig(`theirs.${ZONE}`, "A")).data).toEqual(["192.0.2.5"]);
  });

  it("take over a name that this fleet wrote for another profile", async () => {
    await provider.program(name("moved", target(1)), never);
    const outcome = await provider.program(
      { ...name("moved", target(1)), profile: objectKey("a", "b") },
      never,
    );
    expect(outcome).toMatchObject({ kind: "programmed", changed: true });
    const [{ metadata } = { metadata: {} as { uid?: string } }] = client.objects(NAMESPACES);
    expect((await bind.dig(`_fairlead.moved.${ZONE}`, "TXT")).data).toEqual([
      `"heritage=fairlead,owner=${metadata.uid},profile=a/b"`,
    ]);
  });

  it("find the zone that a domain is in", async () => {
    const inner = await create({ zone: `deep.inside.${ZONE}` });
    await inner.program(name("web", target(3)), never);
    expect((await bind.dig(`web.deep.inside.${ZONE}`, "A")).data).toEqual(["192.0.2.3"]);
  });

  it("are rejected for a key without permission, an unknown key, a wrong secret, and a zone of another server", async () => {
    const secret = Buffer.alloc(32, 7);
    for (const [more, why] of [
      [{ key: bind.powerless }, "REFUSED"],
      [{ key: { name: "unknown.", secret } }, "BADKEY"],
      [{ key: { name: "fleet.", secret } }, "BADSIG"],
      [{ zone: "elsewhere.example" }, "REFUSED"],
    ] as const) {
      const outcome = await (await create(more)).program(name("refused", target(1)), never);
      expect(outcome.kind).toBe("refused");
      expect("message" in outcome ? outcome.message : "").toContain(why);
    }
    expect((await bind.dig(`refused.${ZONE}`, "A")).status).toBe("NXDOMAIN");
  });

  it("are retried while no server answers", async () => {
    const primary = new Primary({ host: "127.0.0.1", port: 1, key: bind.key }, systemClock);
    const silent = createRfc2136Provider(client, { primary, zone: ZONE, owner: "x" }, deps);
    await expect(silent.program(name("silent", target(1)), never)).rejects.toMatchObject({
      code: "API_UNAVAILABLE",
      retriable: true,
    });
  });
});
