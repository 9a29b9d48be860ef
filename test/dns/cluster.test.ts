import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NAMESPACES, type Service, SERVICES, type ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { type Endpoint, ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import { createForward } from "@fairlead/dns/forward.ts";
import type { DnsServer } from "@fairlead/dns/server.ts";
import type { ZoneSync } from "@fairlead/dns/service-sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { type ResourceRecord, TYPE } from "@fairlead/dns/wire/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createClusterSync } from "@fairlead/lab/dns/sync.ts";
import { askWith, type DnsCase, expectedOf, isInstalled, said, serve } from "../support/dns-harness.ts";

function service(name: string, spec: ServiceSpec, namespace = "work"): Service {
  return { metadata: { name, namespace }, spec };
}

function slice(of: string, endpoints: Endpoint[], addressType: "IPv4" | "IPv6" = "IPv4"): EndpointSlice {
  return {
    metadata: {
      name: `${of}-${addressType.toLowerCase()}`,
      namespace: "work",
      labels: { "kubernetes.io/service-name": of },
    },
    addressType,
    endpoints,
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
  };
}

const client = new FakeKubeClient();
client.seed(NAMESPACES, { metadata: { name: "work" } }, { metadata: { name: "default" } });
client.seed(
  SERVICES,
  service(
    "kubernetes",
    { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], ports: [{ name: "https", port: 443 }] },
    "default",
  ),
  service("web", {
    clusterIP: "10.96.0.7",
    clusterIPs: ["10.96.0.7", "fd00:96::7"],
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
  }),
  service("db", { clusterIP: "None" }),
  service("down", { clusterIP: "None" }),
  service("ext", { type: "ExternalName", externalName: "web.work.svc.cluster.local" }),
  service("fleet", { type: "ExternalName", externalName: "hello.work.svc.clusterset.local" }),
  service("world", { type: "ExternalName", externalName: "example.com" }),
);
client.seed(
  ENDPOINT_SLICES,
  slice("web", [{ addresses: ["10.1.0.9"] }]),
  slice("db", [{ addresses: ["10.1.0.1"], hostname: "db-0" }, { addresses: ["10.1.0.2"] }]),
  slice("db", [{ addresses: ["fd00:1::1"], hostname: "db-0" }], "IPv6"),
  slice("down", [{ addresses: ["10.1.0.3"], conditions: { ready: false } }]),
);

const WEB = "web.work.svc.cluster.local.";
const DB = "db.work.svc.cluster.local.";
const HELLO = "hello.work.svc.clusterset.local.";

/** `zone` names the zone whose SOA record has the negative TTL. */
const no = (zone: string): Pick<DnsCase, "authority"> => ({ authority: [zone] });
const cases: readonly DnsCase[] = [
  {
    ask: "kubernetes.default.svc.cluster.local. A",
    rcode: "NOERROR",
    answer: ["kubernetes.default.svc.cluster.local. 5 IN A 10.96.0.1"],
  },
  { ask: `${WEB} A`, rcode: "NOERROR", answer: [`${WEB} 5 IN A 10.96.0.7`] },
  { ask: `${WEB} AAAA`, rcode: "NOERROR", answer: [`${WEB} 5 IN AAAA fd00:96::7`] },
  { ask: `_http._tcp.${WEB} SRV`, rcode: "NOERROR", answer: [`_http._tcp.${WEB} 5 IN SRV 0 1 80 ${WEB}`] },
  {
    ask: "7.0.96.10.in-addr.arpa. PTR",
    rcode: "NOERROR",
    answer: [`7.0.96.10.in-addr.arpa. 5 IN PTR ${WEB}`],
  },
  { ask: `${DB} A`, rcode: "NOERROR", answer: [`${DB} 5 IN A 10.1.0.1`, `${DB} 5 IN A 10.1.0.2`] },
  { ask: `${DB} AAAA`, rcode: "NOERROR", answer: [`${DB} 5 IN AAAA fd00:1::1`] },
  { ask: `db-0.${DB} A`, rcode: "NOERROR", answer: [`db-0.${DB} 5 IN A 10.1.0.1`] },
  { ask: `10-1-0-2.${DB} A`, rcode: "NOERROR", answer: [`10-1-0-2.${DB} 5 IN A 10.1.0.2`] },
  {
    ask: `_http._tcp.${DB} SRV`,
    rcode: "NOERROR",
    answer: [
      `_http._tcp.${DB} 5 IN SRV 0 1 8080 db-0.${DB}`,
      `_http._tcp.${DB} 5 IN SRV 0 1 8080 10-1-0-2.${DB}`,
    ],
  },
  {
    ask: "1.0.1.10.in-addr.arpa. PTR",
    rcode: "NOERROR",
    answer: [`1.0.1.10.in-addr.arpa. 5 IN PTR db-0.${DB}`],
  },
  {
    ask: "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa. PTR",
    rcode: "NOERROR",
    answer: [`1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR db-0.${DB}`],
  },
  { ask: "9.0.1.10.in-addr.arpa. PTR", rcode: "NXDOMAIN", ...no("in-addr.arpa.") },
  { ask: "down.work.svc.cluster.local. A", rcode: "NXDOMAIN", ...no("cluster.local.") },
  {
    ask: "ext.work.svc.cluster.local. A",
    rcode: "NOERROR",
    answer: [`ext.work.svc.cluster.local. 5 IN CNAME ${WEB}`, `${WEB} 5 IN A 10.96.0.7`],
  },
  {
    ask: "ext.work.svc.cluster.local. CNAME",
    rcode: "NOERROR",
    answer: [`ext.work.svc.cluster.local. 5 IN CNAME ${WEB}`],
  },
  {
    ask: "fleet.work.svc.cluster.local. A",
    rcode: "NOERROR",
    answer: [`fleet.work.svc.cluster.local. 5 IN CNAME ${HELLO}`, `${HELLO} 5 IN A 10.96.200.1`],
  },
  {
    ask: "world.work.svc.cluster.local. A",
    rcode: "NXDOMAIN",
    answer: ["world.work.svc.cluster.local. 5 IN CNAME example.com."],
    ...no("."),
  },
  { ask: `${HELLO} A`, rcode: "NOERROR", answer: [`${HELLO} 5 IN A 10.96.200.1`] },
  { ask: "none.work.svc.clusterset.local. A", rcode: "NXDOMAIN", ...no("clusterset.local.") },
  {
    ask: "dns-version.cluster.local. TXT",
    rcode: "NOERROR",
    answer: ['dns-version.cluster.local. 5 IN TXT "1.1.0"'],
  },
  { ask: "work.svc.cluster.local. A", rcode: "NOERROR", ...no("cluster.local.") },
  { ask: "absent.svc.cluster.local. A", rcode: "NXDOMAIN", ...no("cluster.local.") },
  // What the search list of a pod makes of a cluster-set name before it gets to the name itself.
  { ask: `${HELLO}work.svc.cluster.local. A`, rcode: "NXDOMAIN", ...no("cluster.local.") },
  { ask: `${HELLO}svc.cluster.local. A`, rcode: "NXDOMAIN", ...no("cluster.local.") },
  { ask: `${HELLO}cluster.local. A`, rcode: "NXDOMAIN", ...no("cluster.local.") },
  { ask: "example.com. A", rcode: "NXDOMAIN", ...no(".") },
];

/** The peers to compare with. One that is not on this machine shows as a skipped test. */
const PROGRAMS = [
  { name: "dig", isPresent: await isInstalled("dig") },
  { name: "kdig", isPresent: await isInstalled("kdig") },
] as const;

let fleet: DnsServer;
let server: DnsServer;
let sync: ZoneSync;
const stop = new AbortController();
const tree = new RecordTree();
const soas = new Map<string, string>();

beforeAll(async () => {
  const deps = systemDeps(silentLogger);
  const fleetTree = new RecordTree();
  fleetTree.addZone({ origin: "clusterset.local.", negativeTtl: 5, serial: 1 });
  const hello: ResourceRecord = { name: HELLO, class: 1, ttl: 5, data: { type: "A", address: 0x0a60_c801 } };
  fleetTree.put("hello", { records: [hello] });
  fleet = await serve(fleetTree);
  sync = createClusterSync({ client, tree, zone: { origin: "cluster.local.", ttl: 5 } }, deps);
  await sync.start(stop.signal);
  const forwards = [createForward({ domain: "clusterset.local.", servers: fleet.addresses }, deps)];
  server = await serve(tree, { isReady: () => sync.hasSynced, forwards });
  for (const zone of [".", "cluster.local.", "in-addr.arpa.", "clusterset.local."]) {
    soas.set(zone, said(await ask(zone, TYPE.SOA)).answer[0] ?? "");
  }
});

afterAll(async () => {
  stop.abort();
  for (const it of [server, fleet, sync]) await it[Symbol.asyncDispose]();
});

const ask = (name: string, type: number, at = 0) =>
  exchange({ name, type, class: 1 }, { server: server.addresses[at]!, timeoutMs: 5000, clock: systemClock });

function expected(of: DnsCase) {
  const [zone] = of.authority ?? [];
  return expectedOf(zone === undefined ? of : { ...of, authority: [soas.get(zone) ?? ""] });
}

describe("the DNS server of a lab cluster", () => {
  it.each(cases)("$ask: $rcode $answer", async (of) => {
    const [name = "", type = ""] = of.ask.split(" ");
    const code = Object.entries(TYPE).find(([it]) => it === type)?.[1] ?? 0;
    for (const at of [0, 1]) expect(said(await ask(name, code, at))).toEqual(expected(of));
  });

  describe.each(PROGRAMS)("asked by $name", ({ name, isPresent }) => {
    it.skipIf(!isPresent).each([
      ["UDP", [], 0],
      ["TCP", ["+tcp"], 1],
    ] as const)("says the same over %s", async (_, flags, at) => {
      const questions = cases.map((it) => it.ask);
      const answers = await askWith(name, server.addresses[at]!, questions, flags);
      // A forwarded answer may have aged by a second on its way.
      expect(answers.map(withoutAge)).toEqual(cases.map(expected).map(withoutAge));
    });
  });

  it("follows the endpoints of a headless Service", async () => {
    await client.mergePatch(ENDPOINT_SLICES, objectKey("work", "down-ipv4"), {
      endpoints: [{ addresses: ["10.1.0.3"], conditions: { ready: true } }],
    });
    const DOWN = "down.work.svc.cluster.local.";
    await expect.poll(async () => said(await ask(DOWN, TYPE.A)).answer).toEqual([`${DOWN} 5 IN A 10.1.0.3`]);
    await client.delete(SERVICES, objectKey("work", "down"));
    await expect.poll(async () => said(await ask(DOWN, TYPE.A)).rcode).toBe("NXDOMAIN");
    expect(said(await ask("3.0.1.10.in-addr.arpa.", TYPE.PTR)).rcode).toBe("NXDOMAIN");
  });

  it("keeps answering for the fleet while the fleet's own server is down", async () => {
    expect(said(await ask(HELLO, TYPE.A)).rcode).toBe("NOERROR");
    await fleet[Symbol.asyncDispose]();
    const later = said(await ask(HELLO, TYPE.A));
    expect(later).toMatchObject({ rcode: "NOERROR" });
    expect(later.answer[0]).toMatch(/ IN A 10\.96\.200\.1$/);
  });
});

function withoutAge<T extends { readonly answer: readonly string[]; readonly authority: readonly string[] }>(
  of: T,
) {
  const strip = (line: string): string => line.replace(/ \d+ IN /, " IN ");
  return { ...of, answer: of.answer.map(strip), authority: of.authority.map(strip) };
}
