import { describe, expect, it } from "vitest";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { EXPORTS_SERVED, EXPORTS_VALID, MCS_CONFLICT, TRAFFIC } from "#api/fairlead.dev/names.ts";
import { renderStatus } from "./render-status.ts";
import { type FleetSnapshot, inNamespace, isFleetHealthy, summarizeFleet } from "./status.ts";

const lastTransitionTime = "2026-01-01T00:00:00Z";
const is = (type: string, status: "True" | "False", message = ""): Condition => ({
  type,
  status,
  reason: "Because",
  message,
  lastTransitionTime,
});

const EMPTY: FleetSnapshot = {
  members: [],
  leases: [],
  exports: [],
  sliceExports: [],
  serviceImports: [],
  importedServices: [],
  reports: [],
  internalMembers: [],
  profiles: [],
  gateways: [],
};

type Member = FleetSnapshot["members"][number];

function member(
  name: string,
  more: Partial<Member> & { readonly annotations?: Record<string, string> } = {},
): Member {
  const { annotations = {}, ...rest } = more;
  return {
    metadata: { name, annotations },
    spec: { identity: { kind: "User", name } },
    status: { conditions: [is("Joined", "True"), is("Healthy", "True")] },
    ...rest,
  };
}

/** A service work/hello of a member, with so many endpoints. */
function exported(cluster: string, count: number, conditions: Condition[] = []): Partial<FleetSnapshot> {
  const namespace = `fleet-member-${cluster}`;
  const reference = {
    clusterId: cluster,
    kind: "Service",
    namespace: "work",
    name: "hello",
    namespacedName: "work/hello",
  };
  const rest = { resourceVersion: "1", generation: 1, uid: "1", exportedSince: lastTransitionTime };
  return {
    exports: [
      {
        metadata: { namespace, name: "work-hello" },
        spec: { ports: [], serviceReference: { ...reference, ...rest } },
        status: { conditions },
      },
    ],
    sliceExports: [
      {
        metadata: { namespace, name: "hello-1" },
        spec: {
          addressType: "IPv4",
          endpoints: Array.from({ length: count }, (_, at) => ({ addresses: [`10.0.0.${at}`] })),
          endpointSliceReference: { ...reference, ...rest },
          ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
        },
      },
    ],
  };
}

function fleetOf(members: readonly Member[], ...parts: readonly Partial<FleetSnapshot>[]): FleetSnapshot {
  return {
    ...EMPTY,
    members,
    exports: parts.flatMap((it) => it.exports ?? []),
    sliceExports: parts.flatMap((it) => it.sliceExports ?? []),
  };
}

describe("the state of a fleet", () => {
  it("says in one line what is wrong with a member, and which links are cut", () => {
    const said = "the lease was not renewed for 5 s, but endpoints of the cluster answer b";
    const conditions = [is("Joined", "True"), is("Healthy", "False", said)];
    const status = {
      ...summarizeFleet(fleetOf([member("a", { status: { conditions } }), member("b")])),
      links: [{ from: "b", to: "c", by: "endpoints" as const }],
    };
    const text = renderStatus(status, "text", 0);
    expect(text).toContain(`CLUSTERS NOT HEALTHY\n  a: ${said}\n`);
    expect(text).toContain("LINKS CUT\n  b to c: no endpoint answers any more");
    expect(isFleetHealthy({ ...status, clusters: [] })).toBe(false);
  });

  it("names nodes whose agents do not do their part, and no clusters that are meant to be without agents", () => {
    const said = (type: string, reason: string, message: string): Condition => ({
      ...is(type, "False", message),
      reason,
    });
    const agentStatus = [
      {
        type: "ServiceExportImportAgent" as const,
        conditions: [
          said("fairlead.dev/NodeAgentsInstalled", "NodesNotReady", "node-1: CrashLoopBackOff"),
          said("fairlead.dev/CrossClusterPolicy", "NodesFailing", "node-2: cannot write"),
        ],
      },
      {
        type: "MultiClusterServiceAgent" as const,
        conditions: [said("fairlead.dev/CrossClusterPolicy", "NoNodeAgents", "install it")],
      },
    ];
    const { conditions = [] } = member("a").status ?? {};
    const text = renderStatus(
      summarizeFleet(fleetOf([member("a", { status: { conditions, agentStatus } })])),
      "text",
      0,
    );
    expect(text).toContain("NODES NOT READY\n  a: node-1: CrashLoopBackOff\n  a: node-2: cannot write");
    expect(text).not.toContain("install it");
  });

  it("says which endpoints refuse connections of other members", () => {
    const leases = ["a", "b"].map((name) => ({
      metadata: {
        namespace: `fleet-member-${name}`,
        name,
        annotations: { "fairlead.dev/refused": "a/work/hello" },
      },
    }));
    const text = (count: number) => {
      const snapshot = fleetOf([member("a"), member("b")], exported("a", count));
      return renderStatus(summarizeFleet({ ...snapshot, leases }), "text", 0);
    };
    expect(text(1)).toMatch(
      /SERVICES NOT SERVED\n {2}work\/hello: a: its endpoints refuse connections from a, b: no process/,
    );
    expect(text(0)).not.toContain("refuse");
  });

  it("names members as people count them", () => {
    const names = ["member-10", "member-2", "member-1"];
    const { clusters } = summarizeFleet(fleetOf(names.map((it) => member(it))));
    expect(clusters.map((it) => it.name)).toEqual(["member-1", "member-2", "member-10"]);
  });

  it("reports a conflict once, although each kind of export words it differently", () => {
    const said = "ports differ: a has 80 and wins; b has 81";
    const conflicts = [
      is("Conflict", "True", "ports differ: b has 81, a has 80"),
      is(MCS_CONFLICT, "True", said),
    ];
    const members = [member("a"), member("b")];
    const agreed = [is("Conflict", "False"), is(MCS_CONFLICT, "True", said)];
    const status = summarizeFleet(fleetOf(members, exported("a", 1, agreed), exported("b", 1, conflicts)));
    expect(renderStatus(status, "text", 0)).toMatch(
      /CONFLICTS\n {2}work\/hello: ports differ: a has 80 and wins; b has 81$/,
    );
  });

  it("does not count endpoints of drained members as serving, unless no other cluster serves", () => {
    const drained = (mode: string): Member => member("b", { annotations: { "fairlead.dev/drain": mode } });
    const serving = (members: readonly Member[], ...parts: readonly Partial<FleetSnapshot>[]) => {
      const { clusters, services } = summarizeFleet(fleetOf(members, ...parts));
      return { clusters: clusters.map((it) => [it.endpoints, it.serving]), service: services[0]?.serving };
    };
    const both = [exported("a", 1), exported("b", 2)];
    expect(serving([member("a"), member("b")], ...both)).toEqual({
      clusters: [
        [1, 1],
        [2, 2],
      ],
      service: 3,
    });
    expect(serving([member("a"), drained("true")], ...both)).toEqual({
      clusters: [
        [1, 1],
        [2, 0],
      ],
      service: 1,
    });
    const [, alone] = both;
    expect(serving([member("a"), drained("true")], alone ?? {})).toEqual({
      clusters: [
        [0, 0],
        [2, 2],
      ],
      service: 2,
    });
    expect(serving([member("a"), drained("hard")], alone ?? {})).toEqual({
      clusters: [
        [0, 0],
        [2, 0],
      ],
      service: 0,
    });
    const text = renderStatus(summarizeFleet(fleetOf([member("a"), drained("true")], ...both)), "text", 0);
    expect(text).toMatch(/ENDPOINTS +SERVING +LAST SYNC/);
  });

  it("lists exports that are not valid, one on each line", () => {
    const message = "work/a: service work/a is not found\nwork/b: \rred";
    const agentStatus = [
      { type: "ServiceExportImportAgent", conditions: [is(EXPORTS_VALID, "False", message)] },
    ];
    const one = member("a", { status: { conditions: [is("Joined", "True")], agentStatus } });
    const text = renderStatus(summarizeFleet(fleetOf([one])), "text", 0);
    expect(text).toContain("INVALID EXPORTS\n  a: work/a: service work/a is not found\n  a: work/b:  red");
  });
});

describe("an export that gets no requests", () => {
  const [a, b] = [member("a"), member("b")];
  const shown = (change: (it: FleetSnapshot) => void, output: "text" | "wide" = "text"): string => {
    const snapshot = fleetOf([a, b], exported("a", 2));
    const [one] = snapshot.exports;
    if (one?.spec !== undefined) one.spec.ports = [{ name: "http", port: 80, targetPort: "htp" }];
    for (const it of snapshot.sliceExports) it.spec.ports = [{ name: "http", port: 8080 }];
    change(snapshot);
    return renderStatus(summarizeFleet(snapshot), output, 0);
  };

  it("is not listed where it gets them", () => {
    expect(shown(() => {})).not.toMatch(/SERVICES NOT SERVED|SERVING/);
  });

  it.each<[string, (it: FleetSnapshot) => void]>([
    [
      "no endpoints: no pod matches the selector of the Service, or it has 0 replicas",
      (it) => {
        for (const { spec } of it.sliceExports) spec.endpoints = [];
      },
    ],
    [
      "no endpoint is ready: the pods fail their readiness probes, or start or end",
      (it) => {
        for (const { spec } of it.sliceExports)
          for (const endpoint of spec.endpoints) endpoint.conditions = { ready: false };
      },
    ],
    [
      "no endpoint has port http (TCP/80): its targetPort htp is not the name of a port of the pods",
      (it) => {
        for (const { spec } of it.sliceExports) spec.ports = [];
      },
    ],
    [
      "weight 0: its endpoints get no new requests; set the weight to 1 or more",
      (it) => {
        for (const { spec } of it.exports) if (spec !== undefined) spec.weight = 0;
      },
    ],
    [
      "no members are named c",
      (it) => {
        for (const one of it.exports)
          one.status = { conditions: [is(TRAFFIC, "False", "no members are named c")] };
      },
    ],
  ])("is listed with the cause: %s", (why, change) => {
    expect(shown(change)).toContain(`SERVICES NOT SERVED\n  work/hello: a: ${why}`);
  });

  const reporting = (message: string): Member => {
    const agentStatus = [
      { type: "ServiceExportImportAgent", conditions: [is(EXPORTS_SERVED, "False", message)] },
    ];
    return member("a", {
      status: { conditions: [is("Joined", "True"), is("Healthy", "True")], agentStatus },
    });
  };

  it("is listed with what its cluster says of the pods, where it has no ready endpoints", () => {
    const why = "no endpoints: Deployment hello is scaled to 0 replicas";
    const found = (count: number): string =>
      renderStatus(
        summarizeFleet(fleetOf([reporting(`work/hello: ${why}`), b], exported("a", count))),
        "text",
        0,
      );
    expect(found(0)).toMatch(new RegExp(`SERVICES NOT SERVED\n {2}work/hello: a: ${why}$`));
    // What the hub has of the endpoints is newer.
    expect(found(1)).not.toContain("SERVICES NOT SERVED");
  });

  it("is listed where its cluster withdrew it, and left out where another namespace is asked for", () => {
    const status = summarizeFleet(fleetOf([reporting("work/hello: weight 0: nothing is exported\nodd"), b]));
    expect(renderStatus(status, "text", 0)).toMatch(
      /SERVICES NOT SERVED\n {2}work\/hello: a: weight 0: nothing is exported$/,
    );
    expect(renderStatus(inNamespace(status, "other"), "text", 0)).not.toContain("hello");
  });

  it("does not count as serving", () => {
    const text = shown((it) => {
      for (const { spec } of it.exports) if (spec !== undefined) spec.weight = 0;
    });
    expect(text).toMatch(/^SERVICE .* ENDPOINTS +SERVING$/m);
    expect(text).toMatch(/^work\/hello .* 2 +0$/m);
  });

  it("is left out where another namespace is asked for", () => {
    const status = summarizeFleet(fleetOf([a, b], exported("a", 0)));
    expect(renderStatus(inNamespace(status, "work"), "text", 0)).toContain("work/hello");
    expect(renderStatus(inNamespace(status, "other"), "text", 0)).not.toContain("work/hello");
  });

  it("names the members without the namespace, in wide output", () => {
    const report = (cluster: string, namespaces: string[]) => ({
      metadata: { namespace: `fleet-member-${cluster}`, name: cluster },
      spec: { namespaces },
    });
    const change = (it: FleetSnapshot): void =>
      void Object.assign(it, { reports: [report("a", ["work"]), report("b", ["other"])] });
    expect(shown(change, "wide")).toContain(
      "NAMESPACES NOT IMPORTED\n  work: b cannot import its services: create the namespace there",
    );
    expect(shown(change)).not.toContain("NAMESPACES");
  });
});

describe("a fleet is healthy", () => {
  const healthy = summarizeFleet(fleetOf([member("a")]));
  const without = (conditions: Condition[]) =>
    summarizeFleet(fleetOf([member("a", { status: { conditions } })]));

  it.for([
    ["with all members joined and heard of", healthy, true],
    ["with nothing said of the hub's program", { ...healthy, hub: { state: "Unknown" } as const }, true],
    ["not without the hub's program", { ...healthy, hub: { state: "Dead" } as const }, false],
    ["not with a silent member", without([is("Joined", "True"), is("Healthy", "False")]), false],
    ["not with one that has not joined", without([]), false],
  ] as const)("%s", ([, fleet, expected]) => {
    expect(isFleetHealthy(fleet)).toBe(expected);
  });

  it("while a member leaves", () => {
    const metadata = { name: "a", deletionTimestamp: lastTransitionTime };
    expect(isFleetHealthy(summarizeFleet(fleetOf([{ ...member("a"), metadata, status: {} }])))).toBe(true);
  });
});

it("the first line is the hub's: whether its program runs, who it is, and when it renewed its Lease", () => {
  const fleet = summarizeFleet(fleetOf([member("a")]));
  const renewed = "2026-01-01T00:00:00Z";
  const hub = { state: "Running", holder: "hub-1", renewed } as const;
  const nowMs = Date.parse(renewed) + 2000;
  expect(renderStatus({ hub, ...fleet }, "text", nowMs)).toMatch(
    /^HUB +RENEWED +HOLDER\nRunning +2s +hub-1\n\nCLUSTER/,
  );
  const dead = renderStatus({ hub: { ...hub, state: "Dead" }, ...fleet }, "text", nowMs);
  expect(dead).toMatch(/^HUB[^]*\nDead[^]*"fairlead hub" is not running[^]*\nCLUSTER/);
});

it("the text of a fleet with a drained member, a conflict and an invalid export", async () => {
  const said = "ports differ: a has 80 and wins; b has 81";
  const invalid = [is(EXPORTS_VALID, "False", "work/odd: service work/odd is not found")];
  const summary = summarizeFleet(
    fleetOf(
      [
        member("a", {
          status: {
            conditions: [is("Joined", "True"), is("Healthy", "True")],
            agentStatus: [{ type: "ServiceExportImportAgent", conditions: invalid }],
          },
        }),
        member("b", { annotations: { "fairlead.dev/drain": "true" } }),
        member("c", {
          status: { conditions: [is("Joined", "True"), is("Healthy", "False", "no heartbeat")] },
        }),
      ],
      exported("a", 2),
      exported("b", 3, [is(MCS_CONFLICT, "True", said)]),
    ),
  );
  const hub = { state: "Running", holder: "hub-1", renewed: lastTransitionTime } as const;
  const nowMs = Date.parse(lastTransitionTime) + 2000;
  for (const output of ["text", "wide"] as const)
    await expect(`${renderStatus({ hub, ...summary }, output, nowMs)}\n`).toMatchFileSnapshot(
      `goldens/status-${output}.txt`,
    );
});

describe("the networks of a fleet", () => {
  const ofMember = (name: string, network: { profile: string; mode: "flat" | "parallel" }) => ({
    metadata: { namespace: `fleet-member-${name}`, name },
    spec: { state: "Join" as const, network },
  });
  const profile = (name: string, ...conditions: Condition[]) => ({
    metadata: { name },
    spec: { memberSelector: {}, network: { mode: "parallel" as const } },
    status: { members: 1, conditions },
  });

  it("are shown with their members, and with what is wrong", () => {
    const status = summarizeFleet({
      ...fleetOf([member("a"), member("b")]),
      internalMembers: [ofMember("a", { profile: "site", mode: "parallel" })],
      profiles: [
        profile("site", is("Ready", "False", "waiting"), is("Conflict", "True", "taken")),
        profile("fine", is("Ready", "True", "1 members")),
      ],
    });
    expect(status.clusters.map((it) => it.network)).toEqual([
      { profile: "site", mode: "parallel" },
      undefined,
    ]);
    const text = renderStatus(status, "text", 0);
    expect(text).toContain("NETWORK");
    expect(text).toMatch(/^a +True +True +site \(parallel\)/m);
    expect(text).toMatch(/^b +True +True +- /m);
    expect(text).toContain("NETWORKS NOT READY\n  site: Because: waiting\n  site: Because: taken");
    expect(text).not.toContain("fine");
  });

  it("are not mentioned in a fleet without profiles", () => {
    expect(renderStatus(summarizeFleet(fleetOf([member("a")])), "text", 0)).not.toContain("NETWORK");
  });
});
