import { describe, expect, it } from "vitest";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { untilServed } from "./crd.ts";

const deps = systemDeps(silentLogger);
const SERVICE_IMPORTS = resource("multicluster.x-k8s.io/v1beta1", "ServiceImport", "serviceimports");
const NAME = "serviceimports.multicluster.x-k8s.io";

function definition(status: "True" | "False", name = NAME): CustomResourceDefinition {
  const names = {
    kind: "ServiceImport",
    listKind: "ServiceImportList",
    plural: "serviceimports",
    singular: "x",
  };
  return {
    metadata: { name },
    spec: { group: "multicluster.x-k8s.io", scope: "Namespaced", names, versions: [] },
    status: {
      conditions: [
        { type: "Established", status, reason: "x", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" },
      ],
    },
  };
}

function waiting(client: FakeKubeClient) {
  const stop = new AbortController();
  const state = { isDone: false, stop };
  const done = untilServed(client, SERVICE_IMPORTS, deps, stop.signal).then(() => {
    state.isDone = true;
    return undefined;
  });
  return { state, done };
}

describe("waiting for a custom kind", () => {
  it("ends at once when it is served", async () => {
    const client = new FakeKubeClient();
    client.seed(CUSTOM_RESOURCE_DEFINITIONS, definition("True"));
    await waiting(client).done;
  });

  it("ends when it is installed and established, not before", async () => {
    const client = new FakeKubeClient();
    client.seed(CUSTOM_RESOURCE_DEFINITIONS, definition("True", "others.example.com"));
    const { state, done } = waiting(client);
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition("False"));
    await expect.poll(() => client.reads.filter((it) => it.verb === "watch").length).toBe(1);
    expect(state.isDone).toBe(false);
    await client.mergePatch(
      CUSTOM_RESOURCE_DEFINITIONS,
      objectKey(undefined, NAME),
      { status: definition("True").status },
      { subresource: "status" },
    );
    await done;
  });

  it("does not wait if CRDs cannot be read", async () => {
    const client = new FakeKubeClient();
    client.find = () => Promise.reject(new FleetError("API_FORBIDDEN", "no"));
    await waiting(client).done;
  });

  it("throws ABORTED when it is stopped", async () => {
    const { state, done } = waiting(new FakeKubeClient());
    state.stop.abort();
    await expect(done).rejects.toMatchObject({ code: "ABORTED" });
  });
});
