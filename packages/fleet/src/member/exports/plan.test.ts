import { describe, expect, it } from "vitest";
import { ENDPOINTS } from "#api/fairlead.dev/names.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { isExportedBy, planExport } from "./plan.ts";
import type { ExportView } from "./view.ts";

const at = "2026-01-01T00:00:00Z";
const metadata = { namespace: "work", name: "hello", creationTimestamp: at };
const service = (spec: Service["spec"] = {}): Service => ({
  metadata,
  spec: { type: "ClusterIP", clusterIP: "10.0.0.1", ports: [{ name: "http", port: 80 }], ...spec },
});
const weighed = (weight: string) => ({
  metadata: { ...metadata, annotations: { "networking.fleet.azure.com/weight": weight } },
});
const view = (more: Partial<ExportView>): ExportView => ({
  namespace: "work",
  name: "hello",
  fleet: undefined,
  mcs: undefined,
  service: service(),
  current: undefined,
  ...more,
});
const onHub = (
  spec: Partial<NonNullable<InternalServiceExport["spec"]>>,
  ...conditions: readonly [string, Condition["status"], string][]
): InternalServiceExport => ({
  metadata: { name: "work-hello" },
  spec: { ports: [], serviceReference: {} as never, ...spec },
  status: {
    conditions: conditions.map(([type, status, reason]) => ({
      type,
      status,
      reason,
      message: "m",
      lastTransitionTime: at,
    })),
  },
});
const said = (
  conditions: readonly { type: string; status: string; reason: string }[] | undefined,
): string[] => (conditions ?? []).map((it) => `${it.type}=${it.status}:${it.reason}`);

describe("an export of a Service", () => {
  const endpoint = { addresses: ["10.0.0.1"] };
  const slice = (
    endpoints: EndpointSlice["endpoints"],
    ports: EndpointSlice["ports"] = [{ name: "http", port: 8080 }],
  ): EndpointSlice => ({ metadata, addressType: "IPv4", endpoints, ports });
  const NO_POD =
    "NoEndpoints: no endpoints: no pod matches the selector of the Service, or it has 0 replicas";

  it.each<[string, Service["spec"], readonly EndpointSlice[], string | undefined]>([
    ["with ready endpoints", {}, [slice([endpoint])], undefined],
    ["without pods", { selector: { app: "x" } }, [slice([])], NO_POD],
    ["without slices", { selector: { app: "x" } }, [], NO_POD],
    [
      "without selector and endpoints",
      {},
      [],
      "NoEndpoints: no endpoints: the Service has no selector, and no EndpointSlice of it has endpoints",
    ],
    [
      "whose pods are not ready",
      {},
      [slice([{ ...endpoint, conditions: { ready: false } }])],
      "NoReadyEndpoints: no endpoint is ready: the pods fail their readiness probes, or start or end",
    ],
    [
      "whose targetPort no pod has",
      { ports: [{ name: "http", port: 80, targetPort: "htp" }] },
      [slice([endpoint], [])],
      "NoSuchPort: no endpoint has port http (TCP/80): its targetPort htp is not the name of a port of the pods",
    ],
  ])("%s says in a condition why no request reaches it, if none does", (_, spec, slices, expected) => {
    const plan = planExport(view({ fleet: { metadata }, mcs: { metadata }, service: service(spec), slices }));
    for (const conditions of [plan.fleet, plan.mcs]) {
      const found = conditions?.find((it) => it.type === ENDPOINTS);
      expect(found && `${found.reason}: ${found.message}`).toBe(expected);
    }
    expect(plan.hasEndpoints).toBe(true);
  });
});

describe("an export through the fleet API", () => {
  it.each([
    ["nothing to export", undefined, "Valid=False:ServiceNotFound"],
    [
      "a Service that is going",
      { ...service(), metadata: { ...metadata, deletionTimestamp: at } },
      "Valid=False:ServiceNotFound",
    ],
    ["an ExternalName", service({ type: "ExternalName" }), "Valid=False:ServiceIneligible"],
    ["a headless Service", service({ clusterIP: "None" }), "Valid=False:ServiceIneligible"],
  ])("of %s sends nothing and says so, and nothing of conflicts", (_, of, expected) => {
    const plan = planExport(view({ fleet: { metadata }, service: of }));
    expect(plan.spec).toBeUndefined();
    expect(said(plan.fleet)).toEqual([expected]);
    expect(plan.mcs).toBeUndefined();
  });

  it("waits for the hub's conditions, then copies them", () => {
    expect(said(planExport(view({ fleet: { metadata } })).fleet)).toEqual([
      "Valid=True:ServiceIsValid",
      "Conflict=Unknown:ServicePendingConflictResolution",
    ]);
    const current = onHub(
      {},
      ["Conflict", "True", "ConflictFound"],
      ["multicluster.x-k8s.io/Conflict", "True", "PortConflict"],
    );
    expect(said(planExport(view({ fleet: { metadata }, current })).fleet)).toEqual([
      "Valid=True:ServiceIsValid",
      "Conflict=True:ConflictFound",
    ]);
  });

  it("carries its weight; 0 withdraws it with the words that other tools wait for", () => {
    expect(planExport(view({ fleet: weighed("7") })).spec).toMatchObject({ weight: 7 });
    const drained = planExport(view({ fleet: weighed("0") }));
    expect(drained.spec).toBeUndefined();
    expect(drained.fleet).toEqual([
      {
        type: "Valid",
        status: "True",
        reason: "ServiceIsValid",
        message: "exported service work/hello with 0 weight",
      },
    ]);
  });

  it("keeps its last valid weight when the annotation cannot be read", () => {
    const door = { group: "networking.fleet.azure.com", createdAt: at };
    const kept = planExport(view({ fleet: weighed("x"), current: onHub({ doors: [door], weight: 5 }) }));
    expect(kept.spec).toMatchObject({ weight: 5 });
    expect(said(kept.fleet)[0]).toBe("Valid=False:ServiceExportInvalidWeightAnnotation");
    expect(planExport(view({ fleet: weighed("x") })).spec).toBeUndefined();
  });
});

describe("an export through the multi-cluster API", () => {
  it.each([
    ["nothing", undefined, "Valid=False:NoService"],
    ["an ExternalName", service({ type: "ExternalName" }), "Valid=False:InvalidServiceType"],
  ])("of %s sends nothing and says so", (_, of, expected) => {
    const plan = planExport(view({ mcs: { metadata }, service: of }));
    expect(plan.spec).toBeUndefined();
    expect(said(plan.mcs)).toEqual([expected, "Ready=False:Pending"]);
  });

  it("of a headless Service is fine", () => {
    const plan = planExport(view({ mcs: { metadata }, service: service({ clusterIP: "None" }) }));
    expect(plan.spec).toMatchObject({ headless: true });
    expect(said(plan.mcs)).toEqual(["Valid=True:Valid", "Ready=False:Pending"]);
  });

  it("is ready once the hub has it, and copies the condition of its own API", () => {
    const current = onHub(
      {},
      ["fairlead.dev/Accepted", "True", "Accepted"],
      ["Conflict", "True", "ConflictFound"],
      ["multicluster.x-k8s.io/Conflict", "False", "NoConflicts"],
    );
    expect(said(planExport(view({ mcs: { metadata }, current })).mcs)).toEqual([
      "Valid=True:Valid",
      "Ready=True:Exported",
      "Conflict=False:NoConflicts",
    ]);
    const refused = onHub({}, ["fairlead.dev/Accepted", "False", "Refused"]);
    expect(said(planExport(view({ mcs: { metadata }, current: refused })).mcs)).toEqual([
      "Valid=True:Valid",
      "Ready=False:Failed",
    ]);
  });

  it("carries labels and annotations of its spec, never those of the objects", () => {
    const mcs = {
      metadata: { ...metadata, labels: { own: "x" } },
      spec: { exportedLabels: { a: "1" }, exportedAnnotations: { b: "2" } },
    };
    expect(planExport(view({ mcs })).spec?.doors).toEqual([
      {
        group: "multicluster.x-k8s.io",
        createdAt: at,
        exportedLabels: { a: "1" },
        exportedAnnotations: { b: "2" },
      },
    ]);
  });
});

describe("an export through both APIs", () => {
  it("is one export, and stays while one of the two ServiceExports remains", () => {
    const both = planExport(view({ fleet: { metadata }, mcs: { metadata } }));
    expect(both.spec?.doors?.map((it) => it.group)).toEqual([
      "networking.fleet.azure.com",
      "multicluster.x-k8s.io",
    ]);
    const drained = planExport(view({ fleet: weighed("0"), mcs: { metadata } }));
    expect(drained.spec?.doors?.map((it) => it.group)).toEqual(["multicluster.x-k8s.io"]);
    expect(drained.spec).not.toHaveProperty("weight");
  });

  it("of a reserved namespace is refused by both", () => {
    const plan = planExport(view({ namespace: "fleet-system", fleet: { metadata }, mcs: { metadata } }));
    expect(plan.spec).toBeUndefined();
    expect([said(plan.fleet)[0], said(plan.mcs)[0]]).toEqual([
      "Valid=False:ServiceIneligible",
      "Valid=False:InvalidServiceType",
    ]);
  });
});

describe("whether a service is exported", () => {
  it("is what the plan of its export says, whatever there is", () => {
    const fleets = [undefined, { metadata }, weighed("0"), weighed("3"), weighed("many")];
    const services = [
      undefined,
      service(),
      service({ clusterIP: "None" }),
      service({ type: "ExternalName" }),
      { ...service(), metadata: { ...metadata, deletionTimestamp: at } },
    ];
    const views = fleets.flatMap((fleet) =>
      [undefined, { metadata }].flatMap((mcs) =>
        services.flatMap((it) =>
          [undefined, "east"].flatMap((left) =>
            [undefined, onHub({ weight: 2 })].map((current) =>
              view({ fleet, mcs, service: it, current, left }),
            ),
          ),
        ),
      ),
    );
    for (const of of views) {
      const { spec, hasEndpoints } = planExport(of);
      expect(isExportedBy(of)).toBe(spec !== undefined);
      expect(isExportedBy(of)).toBe(hasEndpoints);
    }
  });
});
