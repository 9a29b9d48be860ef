import { afterAll, beforeAll, describe, it } from "vitest";
import { NAMESPACES } from "#api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "#api/discovery/v1/types.ts";
import { ALLOWED_IMPORTERS_ANNOTATION, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES } from "#api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { MCS_SERVICE_IMPORTS, MCS_SERVICE_NAME_LABEL } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_IMPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { deploy, ensureNamespace, eventually, exportBy, startFleet, type TestFleet } from "./fleet.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"] });
  for (const name of ["b", "c"]) await ensureNamespace(fleet.client(name), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
}, 60_000);
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

describe("A9: the hub's namespace says who may import its services", () => {
  it("and nobody else gets them, nor can read them in the view, until it says otherwise", async () => {
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
