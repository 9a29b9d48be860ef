import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RESOURCE_QUOTAS } from "@fairlead/kube/api/core/v1/quota.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  ALLOWED_EXPORTERS_ANNOTATION,
  ALLOWED_IMPORTERS_ANNOTATION,
  VIEW_NAMESPACE,
} from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"] });
  for (const name of ["b", "c"]) await ensureNamespace(fleet.client(name), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const allow = (importers: string | null) =>
  fleet.client("hub").mergePatch(NAMESPACES, objectKey(undefined, "work"), {
    metadata: { annotations: { [ALLOWED_IMPORTERS_ANNOTATION]: importers } },
  });
const untilImported = async (name: string, count: number) => {
  await eventually(fleet.client(name), MCS_SERVICE_IMPORTS, (all) => all.length === count);
  await eventually(
    fleet.client(name),
    ENDPOINT_SLICES,
    (all) => all.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello").length === count,
  );
};

describe("A9: an annotation of the hub's namespace lists the permitted importers", () => {
  it("and other members neither receive them nor can read them in the view, until the annotation changes", async () => {
    const hub = fleet.client("hub");
    await ensureNamespace(hub, "work");
    await allow("b");
    await exportBy("mcs", fleet.client("a"));
    await untilImported("b", 1);
    await eventually(hub, IMPORTED_SERVICES, (all) => all.length === 0, { namespace: VIEW_NAMESPACE });
    await eventually(hub, ENDPOINT_SLICE_IMPORTS, (all) => all.length === 0, { namespace: "fleet-member-c" });
    await untilImported("c", 0);
    await allow("b, c");
    await untilImported("c", 1);
    await allow("c");
    await untilImported("b", 0);
    await allow(null);
    await untilImported("b", 1);
    await eventually(hub, IMPORTED_SERVICES, (all) => all.length === 1, { namespace: VIEW_NAMESPACE });
  });
});

describe("an annotation of the hub's namespace lists the permitted exporters", () => {
  const service = objectKey("shop", "hello");
  const allowExporters = (exporters: string | null) =>
    fleet.client("hub").mergePatch(NAMESPACES, objectKey(undefined, "shop"), {
      metadata: { annotations: { [ALLOWED_EXPORTERS_ANNOTATION]: exporters } },
    });
  const untilFrom = (clusters: string) =>
    eventuallyOne(
      fleet.client("c"),
      MCS_SERVICE_IMPORTS,
      service,
      (it) => it.status?.clusters?.map((one) => one.cluster).join(" ") === clusters,
    );
  const untilReported = (name: string, reason: string) =>
    eventuallyOne(
      fleet.client(name),
      MCS_SERVICE_EXPORTS,
      service,
      (it) => it.status?.conditions?.some((one) => one.type === "Ready" && one.reason === reason) === true,
    );

  it("and exports of all others are rejected with the reason, also existing ones", async () => {
    for (const name of ["hub", "c"]) await ensureNamespace(fleet.client(name), "shop");
    for (const [at, name] of ["a", "b"].entries()) {
      await deploy(fleet.client(name), { namespace: "shop", addresses: [`10.${at + 1}.0.1`] });
      await exportBy("mcs", fleet.client(name), { namespace: "shop" });
    }
    await untilFrom("a b");
    await allowExporters("b");
    await untilFrom("b");
    const reported = await untilReported("a", "Failed");
    expect(reported.status?.conditions?.find((it) => it.type === "Ready")?.message).toContain(
      `${ALLOWED_EXPORTERS_ANNOTATION} of namespace shop on the hub does not name a`,
    );
    await eventually(
      fleet.client("c"),
      ENDPOINT_SLICES,
      (all) => addressesOf(all.filter((it) => it.metadata.namespace === "shop")).join(" ") === "10.2.0.1",
    );
    await allowExporters(null);
    await untilFrom("a b");
    await untilReported("a", "Exported");
  });
});

describe("the quota of a mailbox", () => {
  const key = objectKey("fleet-member-b", "fairlead-mailbox");
  const counted = "count/internalserviceexports.networking.fleet.azure.com";
  /** An administrator, and the quota controller of the hub's cluster. */
  const limit = async (count: string, used: string): Promise<void> => {
    const hub = fleet.client("hub");
    await hub.mergePatch(RESOURCE_QUOTAS, key, { spec: { hard: { [counted]: count } } });
    const status = { hard: { [counted]: count }, used: { [counted]: used } };
    await hub.mergePatch(RESOURCE_QUOTAS, key, { status }, { subresource: "status" });
  };
  const untilReported = (reason: string) =>
    eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_EXPORTS,
      objectKey("shop", "late"),
      (it) => it.status?.conditions?.some((one) => one.type === "Ready" && one.reason === reason) === true,
    );

  it("is changed by administrators only, keeps a member from creating more, and the ServiceExport reports it", async () => {
    const made = await fleet.client("hub").get(RESOURCE_QUOTAS, key);
    expect(made.spec?.hard?.[counted]).toBe("5k");
    await limit("1", "1");
    await deploy(fleet.client("b"), { namespace: "shop", name: "late", addresses: ["10.2.0.7"] });
    await exportBy("mcs", fleet.client("b"), { namespace: "shop", name: "late" });
    const reported = await untilReported("Failed");
    expect(reported.status?.conditions?.find((it) => it.type === "Ready")?.message).toContain(
      "exceeded quota: fairlead-mailbox",
    );
    await limit("9", "1");
    await untilReported("Exported");
    expect((await fleet.client("hub").get(RESOURCE_QUOTAS, key)).spec?.hard?.[counted]).toBe("9");
  });
});
