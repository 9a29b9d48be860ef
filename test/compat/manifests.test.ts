import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { testDeps } from "../support/fleet.ts";

/** Kinds as they are served: what others write is taken, both versions are one, and the rules are theirs. */

const folder = fileURLToPath(new URL("manifests/", import.meta.url));
const files = await readdir(folder);
const all = [...new Map([...HUB_CRDS, ...MEMBER_CRDS].map((it) => [it.metadata.name, it])).values()];
const V1ALPHA1_EXPORTS = resource<KubeObject>(
  "networking.fleet.azure.com/v1alpha1",
  "ServiceExport",
  "serviceexports",
);

let dataDir: string;
let server: ApiServer;
let client: KubeClient;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "fairlead-test-manifests-"));
  server = await startApiServer({ dataDir, journal: "none" });
  client = connect(await loadKubeconfig(server.kubeconfig), testDeps("test"));
  const by = { crds: all, fieldManager: "test" };
  await installCrds(client, by, testDeps("test"), AbortSignal.timeout(20_000));
  await client.create(NAMESPACES, { metadata: { name: "work" } });
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await server.close();
  await rm(dataDir, { recursive: true, force: true });
});

function resourceOf(object: KubeObject): Resource {
  const kind = object.kind ?? "";
  return resource(object.apiVersion ?? "", kind, `${kind.toLowerCase()}s`);
}

describe("manifests of other implementations", () => {
  it.each(files)("in %s are accepted unchanged, and get no additional fields", async (file) => {
    const objects = parseAllDocuments(await readFile(folder + file, "utf8")).map(
      (it) => it.toJS() as KubeObject,
    );
    for (const object of objects) {
      const stored = await client.create(resourceOf(object), object);
      const { metadata: _stored, ...rest } = stored as KubeObject & Record<string, unknown>;
      const { metadata: _given, ...given } = object as KubeObject & Record<string, unknown>;
      expect(rest).toEqual(given);
      expect(stored.metadata).toMatchObject(object.metadata);
      await client.mergePatch(resourceOf(object), keyOf(object), { metadata: { finalizers: null } });
      await client.delete(resourceOf(object), keyOf(object));
    }
  });
});

describe("a ServiceExport", () => {
  it("applied in the older version is read in both, and stored in the newer", async () => {
    await client.apply(
      V1ALPHA1_EXPORTS,
      { metadata: { namespace: "work", name: "app", annotations: { a: "b" } } },
      { fieldManager: "kubectl" },
    );
    const newer = await client.get(FLEET_SERVICE_EXPORTS, objectKey("work", "app"));
    expect(newer).toMatchObject({
      apiVersion: "networking.fleet.azure.com/v1beta1",
      metadata: { annotations: { a: "b" } },
    });
    const status = {
      conditions: [
        {
          type: "Valid",
          status: "True" as const,
          reason: "R",
          message: "",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    };
    await client.mergePatch(
      FLEET_SERVICE_EXPORTS,
      objectKey("work", "app"),
      { status },
      { subresource: "status" },
    );
    const older = await client.get(V1ALPHA1_EXPORTS, objectKey("work", "app"));
    expect(older).toMatchObject({
      apiVersion: "networking.fleet.azure.com/v1alpha1",
      metadata: { uid: newer.metadata.uid },
      status,
    });
    const crd = all.find((it) => it.metadata.name === "serviceexports.networking.fleet.azure.com");
    expect(crd?.spec.versions.filter((it) => it.storage).map((it) => it.name)).toEqual(["v1beta1"]);
  });

  it.each<[string, Resource]>([
    ["v1alpha1", V1ALPHA1_EXPORTS],
    ["v1beta1", FLEET_SERVICE_EXPORTS],
    ["a MultiClusterService", MULTI_CLUSTER_SERVICES],
  ])("of a name too long for a label is refused, in the words that others wait for (%s)", async (_, of) => {
    const spec = of.kind === "MultiClusterService" ? { spec: {} } : {};
    const named = (length: number) =>
      client.create(of, { metadata: { namespace: "work", name: "n".repeat(length) }, ...spec });
    await expect(named(64)).rejects.toMatchObject({
      code: "API_INVALID",
      message: expect.stringContaining("metadata.name max length is 63") as string,
    });
    await client.delete(of, keyOf(await named(63)));
  });
});
