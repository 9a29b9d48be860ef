import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type Endpoint, ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_IMPORTS,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import type { DnsServer } from "@fairlead/dns/server.ts";
import type { ZoneSync } from "@fairlead/dns/service-sync.ts";
import { createClusterSetSync } from "@fairlead/fleet/dns/sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import {
  askWith,
  type DnsCase,
  expectedOf,
  isInstalled,
  said,
  serve,
  SERVICE_IMPORT_CRD,
} from "../support/dns-harness.ts";

const ports = [
  { name: "tcp", port: 42, protocol: "TCP" as const },
  { name: "udp", port: 42, protocol: "UDP" as const },
];

function imported(name: string, spec: Partial<NonNullable<ServiceImport["spec"]>>): ServiceImport {
  return { metadata: { name, namespace: "work" }, spec: { type: "ClusterSetIP", ports, ...spec } };
}

function slice(
  of: { readonly service: string; readonly cluster: string; readonly name?: string },
  endpoints: Endpoint[],
  addressType: "IPv4" | "IPv6" = "IPv4",
): EndpointSlice {
  return {
    metadata: {
      name: of.name ?? `${of.service}-${of.cluster}-${addressType.toLowerCase()}`,
      namespace: "work",
      labels: {
        "multicluster.kubernetes.io/service-name": of.service,
        "multicluster.kubernetes.io/source-cluster": of.cluster,
      },
    },
    addressType,
    endpoints,
    ports,
  };
}

const many = Array.from({ length: 200 }, (_, index) => ({
  addresses: [`10.9.${index >> 8}.${index & 255}`],
}));

const client = new FakeKubeClient();
client.seed(CUSTOM_RESOURCE_DEFINITIONS, SERVICE_IMPORT_CRD);
client.seed(NAMESPACES, { metadata: { name: "work" } }, { metadata: { name: "empty" } });
client.seed(
  MCS_SERVICE_IMPORTS,
  imported("hello", { ips: ["10.96.0.9", "fd00:96::9"] }),
  imported("v4", { ips: ["10.96.0.4"] }),
  imported("pending", {}),
  imported("db", { type: "Headless", ports: [] }),
  imported("down", { type: "Headless", ports: [] }),
  imported("many", { type: "Headless", ports: [] }),
);
client.seed(
  ENDPOINT_SLICES,
  slice({ service: "db", cluster: "east" }, [
    { addresses: ["10.1.0.1"], hostname: "db-0" },
    { addresses: ["10.1.0.2"], hostname: "db-1", conditions: { ready: false, serving: true } },
  ]),
  slice({ service: "db", cluster: "east" }, [{ addresses: ["fd00:1::1"], hostname: "db-0" }], "IPv6"),
  slice({ service: "db", cluster: "west" }, [{ addresses: ["10.2.0.7"] }]),
  slice({ service: "down", cluster: "west" }, [{ addresses: ["10.2.0.8"], conditions: { ready: false } }]),
  slice({ service: "many", cluster: "west" }, many),
  slice({ service: "hello", cluster: "east" }, [{ addresses: ["10.1.0.9"] }]),
);

const DB = "db.work.svc.clusterset.local.";
const HELLO = "hello.work.svc.clusterset.local.";
/** No answer, with the SOA record of the cluster-set zone. */
const NO: Pick<DnsCase, "authority"> = { authority: ["clusterset.local."] };
const FB_HELLO = "hello.work.svc.fleetboard.local.";
const FB_DB = "db.work.svc.fleetboard.local.";
const V6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa.";

const cases: readonly DnsCase[] = [
  { ask: `${HELLO} A`, rcode: "NOERROR", answer: [`${HELLO} 5 IN A 10.96.0.9`] },
  { ask: `${HELLO} AAAA`, rcode: "NOERROR", answer: [`${HELLO} 5 IN AAAA fd00:96::9`] },
  { ask: `${HELLO} SRV`, rcode: "NOERROR", answer: [`${HELLO} 5 IN SRV 0 1 42 ${HELLO}`] },
  {
    ask: `_tcp._tcp.${HELLO} SRV`,
    rcode: "NOERROR",
    answer: [`_tcp._tcp.${HELLO} 5 IN SRV 0 1 42 ${HELLO}`],
  },
  {
    ask: `_udp._udp.${HELLO} SRV`,
    rcode: "NOERROR",
    answer: [`_udp._udp.${HELLO} 5 IN SRV 0 1 42 ${HELLO}`],
  },
  { ask: `_tcp._udp.${HELLO} SRV`, rcode: "NXDOMAIN", ...NO },
  { ask: `_http._tcp.${HELLO} SRV`, rcode: "NXDOMAIN", ...NO },
  { ask: `_tcp._tcp.${HELLO} A`, rcode: "NOERROR", ...NO },
  { ask: `_tcp.${HELLO} SRV`, rcode: "NOERROR", ...NO },
  { ask: `${HELLO} TXT`, rcode: "NOERROR", ...NO },
  { ask: "v4.work.svc.clusterset.local. AAAA", rcode: "NOERROR", ...NO },
  { ask: "pending.work.svc.clusterset.local. A", rcode: "NOERROR", ...NO },
  { ask: "pending.work.svc.clusterset.local. SRV", rcode: "NOERROR", ...NO },
  { ask: "unknown.work.svc.clusterset.local. A", rcode: "NXDOMAIN", ...NO },
  { ask: "hello.elsewhere.svc.clusterset.local. A", rcode: "NXDOMAIN", ...NO },
  { ask: `x.y.z.${HELLO} A`, rcode: "NXDOMAIN", ...NO },
  { ask: `east.${HELLO} A`, rcode: "NXDOMAIN", ...NO },
  { ask: "clusterset.local. A", rcode: "NOERROR", ...NO },
  { ask: "svc.clusterset.local. A", rcode: "NOERROR", ...NO },
  { ask: "work.svc.clusterset.local. A", rcode: "NOERROR", ...NO },
  { ask: "empty.svc.clusterset.local. A", rcode: "NOERROR", ...NO },
  { ask: "elsewhere.svc.clusterset.local. A", rcode: "NXDOMAIN", ...NO },
  { ask: "pod.clusterset.local. A", rcode: "NXDOMAIN", ...NO },
  {
    ask: "dns-version.clusterset.local. TXT",
    rcode: "NOERROR",
    answer: ['dns-version.clusterset.local. 28800 IN TXT "1.0.0"'],
  },
  { ask: `${DB} A`, rcode: "NOERROR", answer: [`${DB} 5 IN A 10.1.0.1`, `${DB} 5 IN A 10.2.0.7`] },
  { ask: `${DB} AAAA`, rcode: "NOERROR", answer: [`${DB} 5 IN AAAA fd00:1::1`] },
  {
    ask: `${DB} SRV`,
    rcode: "NOERROR",
    answer: [`${DB} 5 IN SRV 0 1 42 db-0.east.${DB}`, `${DB} 5 IN SRV 0 1 42 10-2-0-7.west.${DB}`],
  },
  {
    ask: `_tcp._tcp.${DB} SRV`,
    rcode: "NOERROR",
    answer: [
      `_tcp._tcp.${DB} 5 IN SRV 0 1 42 db-0.east.${DB}`,
      `_tcp._tcp.${DB} 5 IN SRV 0 1 42 10-2-0-7.west.${DB}`,
    ],
  },
  { ask: `db-0.east.${DB} A`, rcode: "NOERROR", answer: [`db-0.east.${DB} 5 IN A 10.1.0.1`] },
  { ask: `db-0.east.${DB} AAAA`, rcode: "NOERROR", answer: [`db-0.east.${DB} 5 IN AAAA fd00:1::1`] },
  { ask: `10-2-0-7.west.${DB} A`, rcode: "NOERROR", answer: [`10-2-0-7.west.${DB} 5 IN A 10.2.0.7`] },
  { ask: `10-2-0-7.west.${DB} AAAA`, rcode: "NOERROR", ...NO },
  { ask: `db-1.east.${DB} A`, rcode: "NXDOMAIN", ...NO },
  { ask: `db-0.west.${DB} A`, rcode: "NXDOMAIN", ...NO },
  { ask: `east.${DB} A`, rcode: "NXDOMAIN", ...NO },
  { ask: "down.work.svc.clusterset.local. A", rcode: "NXDOMAIN", ...NO },
  { ask: `${FB_HELLO} A`, rcode: "NOERROR", answer: [`${FB_HELLO} 5 IN A 10.96.0.9`] },
  { ask: `${FB_HELLO} AAAA`, rcode: "NOERROR", answer: [`${FB_HELLO} 5 IN AAAA fd00:96::9`] },
  { ask: `${FB_HELLO} SRV`, rcode: "NOERROR", answer: [`${FB_HELLO} 5 IN SRV 0 1 42 ${FB_HELLO}`] },
  { ask: `east.${FB_HELLO} A`, rcode: "NOERROR", answer: [`east.${FB_HELLO} 5 IN A 10.96.0.9`] },
  { ask: `west.${FB_HELLO} A`, rcode: "NXDOMAIN", authority: ["fleetboard.local."] },
  {
    ask: `_tcp._tcp.${FB_DB} SRV`,
    rcode: "NOERROR",
    answer: [
      `_tcp._tcp.${FB_DB} 5 IN SRV 0 1 42 db-0.east.${FB_DB}`,
      `_tcp._tcp.${FB_DB} 5 IN SRV 0 1 42 10-2-0-7.west.${FB_DB}`,
    ],
  },
  { ask: `east.${FB_DB} A`, rcode: "NOERROR", answer: [`east.${FB_DB} 5 IN A 10.1.0.1`] },
  { ask: `east.${FB_DB} AAAA`, rcode: "NOERROR", answer: [`east.${FB_DB} 5 IN AAAA fd00:1::1`] },
  { ask: `west.${FB_DB} AAAA`, rcode: "NOERROR", authority: ["fleetboard.local."] },
  {
    ask: `east.${FB_DB} SRV`,
    rcode: "NOERROR",
    answer: [`east.${FB_DB} 5 IN SRV 0 1 42 db-0.east.${FB_DB}`],
  },
  { ask: `db-0.east.${FB_DB} A`, rcode: "NOERROR", answer: [`db-0.east.${FB_DB} 5 IN A 10.1.0.1`] },
  { ask: `db-1.east.${FB_DB} A`, rcode: "NXDOMAIN", authority: ["fleetboard.local."] },
  { ask: "unknown.work.svc.fleetboard.local. A", rcode: "NXDOMAIN", authority: ["fleetboard.local."] },
  { ask: "pending.work.svc.fleetboard.local. A", rcode: "NOERROR", authority: ["fleetboard.local."] },
  {
    ask: "9.0.96.10.in-addr.arpa. PTR",
    rcode: "NOERROR",
    answer: [`9.0.96.10.in-addr.arpa. 5 IN PTR ${HELLO}`],
  },
  {
    ask: "1.0.1.10.in-addr.arpa. PTR",
    rcode: "NOERROR",
    answer: [`1.0.1.10.in-addr.arpa. 5 IN PTR db-0.east.${DB}`],
  },
  { ask: `${V6} PTR`, rcode: "NOERROR", answer: [`${V6} 5 IN PTR db-0.east.${DB}`] },
  { ask: "2.0.1.10.in-addr.arpa. PTR", rcode: "NXDOMAIN", authority: ["in-addr.arpa."] },
  { ask: "1.0.1.10.in-addr.arpa. A", rcode: "NOERROR", authority: ["in-addr.arpa."] },
  { ask: "example.com. A", rcode: "REFUSED" },
  { ask: "local. A", rcode: "REFUSED" },
  { ask: "clusterset.local. AXFR", rcode: "REFUSED" },
];

/** The peers to compare with. One that is not on this machine shows as a skipped test. */
const PROGRAMS = [
  { name: "dig", isPresent: await isInstalled("dig") },
  { name: "kdig", isPresent: await isInstalled("kdig") },
] as const;

let server: DnsServer;
let sync: ZoneSync;
/** The SOA record of each zone. */
const soas = new Map<string, string>();
const stop = new AbortController();
const tree = new RecordTree();

beforeAll(async () => {
  const zone = { origin: "clusterset.local.", ttl: 5 };
  const fleetboard = { origin: "fleetboard.local.", ttl: 5 };
  sync = createClusterSetSync({ client, tree, zone, fleetboard }, systemDeps(silentLogger));
  server = await serve(tree, { isReady: () => sync.hasSynced });
});

afterAll(async () => {
  stop.abort();
  await server[Symbol.asyncDispose]();
  await sync[Symbol.asyncDispose]();
});

const question = (name: string, type: number) => ({ name, type, class: 1 });
const ask = (name: string, type: number, at = 0) =>
  exchange(question(name, type), { server: server.addresses[at]!, timeoutMs: 5000, clock: systemClock });

function expected(of: DnsCase) {
  return expectedOf(
    of.authority === undefined ? of : { ...of, authority: of.authority.map((zone) => soas.get(zone) ?? "") },
  );
}

describe("the cluster-set DNS server", () => {
  it("answers SERVFAIL before it has read everything", async () => {
    expect(said(await ask(HELLO, TYPE.A)).rcode).toBe("SERVFAIL");
    await sync.start(stop.signal);
    for (const zone of ["clusterset.local.", "fleetboard.local.", "in-addr.arpa."])
      soas.set(zone, said(await ask(zone, TYPE.SOA)).answer[0] ?? "");
    expect(soas.get("clusterset.local.")).toMatch(
      /^clusterset\.local\. 5 IN SOA ns\.dns\.clusterset\.local\. hostmaster\.clusterset\.local\. \d+ 7200 1800 86400 5$/,
    );
  });

  it.each(cases.filter((it) => !it.ask.endsWith("AXFR")))("$ask: $rcode $answer", async (of) => {
    const [name = "", type = ""] = of.ask.split(" ");
    const code = Object.entries(TYPE).find(([it]) => it === type)?.[1] ?? 0;
    for (const at of [0, 1]) expect(said(await ask(name, code, at))).toEqual(expected(of));
  });

  describe.each(PROGRAMS)("asked by $name", ({ name, isPresent }) => {
    it.skipIf(!isPresent).each([
      ["UDP", [], 0],
      ["TCP", ["+tcp"], 1],
    ] as const)("says the same over %s", async (_, flags, at) => {
      const plain = cases.filter((it) => !it.ask.endsWith("AXFR"));
      const questions = plain.map((it) => it.ask);
      const answers = await askWith(name, server.addresses[at]!, questions, flags);
      expect(answers).toEqual(plain.map(expected));
    });
  });

  it("gives each answer another first record", async () => {
    const first = async () => (await ask("many.work.svc.clusterset.local.", TYPE.A)).answers[0]?.data;
    const seen = new Set<string>();
    for (let turn = 0; turn < 5; turn++) seen.add(JSON.stringify(await first()));
    expect(seen.size).toBe(5);
  });

  it("cuts a long answer over UDP and gives it whole over TCP", async () => {
    // exchange() asks again over TCP by itself when the answer was cut.
    const whole = await ask("many.work.svc.clusterset.local.", TYPE.A);
    expect(whole.answers).toHaveLength(200);
  });

  it.skipIf(!PROGRAMS[0].isPresent)("truncates at 1232 bytes regardless of the client's limit", async () => {
    const [cut] = await askWith(
      "dig",
      server.addresses[0]!,
      ["many.work.svc.clusterset.local. A"],
      ["+ignore", "+bufsize=4096"],
    );
    expect(cut?.answer.length).toBeGreaterThan(60);
    expect(cut?.answer.length).toBeLessThan(80);
  });

  it("adds the addresses of SRV targets to the answer", async () => {
    const { additionals } = await ask(DB, TYPE.SRV);
    expect(additionals.map((it) => it.name).toSorted()).toEqual([
      `10-2-0-7.west.${DB}`,
      `db-0.east.${DB}`,
      `db-0.east.${DB}`,
    ]);
  });

  it("follows changes of one service, and only of that", async () => {
    const before = tree.size;
    await client.create(MCS_SERVICE_IMPORTS, imported("late", { ips: ["10.96.0.77"] }));
    await expect
      .poll(async () => said(await ask("late.work.svc.clusterset.local.", TYPE.A)).answer)
      .toEqual(["late.work.svc.clusterset.local. 5 IN A 10.96.0.77"]);
    await client.delete(MCS_SERVICE_IMPORTS, objectKey("work", "late"));
    await expect
      .poll(async () => said(await ask("late.work.svc.clusterset.local.", TYPE.A)).rcode)
      .toBe("NXDOMAIN");
    expect(tree.size).toBe(before);
  });

  it("moves endpoints when a slice moves to another service", async () => {
    client.seed(MCS_SERVICE_IMPORTS, imported("moved", { type: "Headless", ports: [] }));
    const key = objectKey("work", "mover");
    client.seed(
      ENDPOINT_SLICES,
      slice({ service: "moved", cluster: "east", name: "mover" }, [{ addresses: ["10.3.0.1"] }]),
    );
    const MOVED = "moved.work.svc.clusterset.local.";
    await expect
      .poll(async () => said(await ask(MOVED, TYPE.A)).answer)
      .toEqual([`${MOVED} 5 IN A 10.3.0.1`]);
    await client.mergePatch(ENDPOINT_SLICES, key, {
      metadata: { labels: { "multicluster.kubernetes.io/service-name": "down" } },
    });
    await expect.poll(async () => said(await ask(MOVED, TYPE.A)).rcode).toBe("NXDOMAIN");
    const DOWN = "down.work.svc.clusterset.local.";
    await expect.poll(async () => said(await ask(DOWN, TYPE.A)).answer).toEqual([`${DOWN} 5 IN A 10.3.0.1`]);
  });

  it("keeps answering with the last known state while the API server is down", async () => {
    client.stop();
    expect(said(await ask(HELLO, TYPE.A)).answer).toEqual([`${HELLO} 5 IN A 10.96.0.9`]);
    client.restore();
    await client.create(MCS_SERVICE_IMPORTS, imported("after", { ips: ["10.96.0.78"] }));
    await expect
      .poll(async () => said(await ask("after.work.svc.clusterset.local.", TYPE.A)).rcode, {
        timeout: 10_000,
      })
      .toBe("NOERROR");
  });
});
