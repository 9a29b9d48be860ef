import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ensureNamespace, startFleet, type TestFleet } from "../support/fleet.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const peers = `${root}../shared/peers/`;
const PUBLISHED = [
  "Azure+fleet-networking/examples/getting-started/artifacts/svc-export.yaml",
  "Azure+fleet-networking/examples/getting-started/artifacts/mcs.yaml",
  "kubernetes-sigs+mcs-api/demo/yaml/serviceimport.yaml",
  "kubernetes-sigs+mcs-api/demo/yaml/serviceimport-with-vip.yaml",
];

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"] });
  for (const namespace of ["work", "default", "demo"]) await ensureNamespace(fleet.client("a"), namespace);
});
afterAll(() => fleet[Symbol.asyncDispose]());

function objectsOf(path: string): KubeObject[] {
  return parseAllDocuments(readFileSync(path, "utf8"))
    .map((it) => it.toJS() as KubeObject | null)
    .filter((it) => it !== null);
}

/** The kinds that matter here have plain plurals. */
function resourceOf(object: KubeObject): Resource {
  const kind = object.kind ?? "";
  return resource(object.apiVersion ?? "", kind, `${kind.toLowerCase()}s`);
}

/** Creates what a manifest holds, compares it with the server's result, and deletes it again. */
async function tryManifest(path: string): Promise<void> {
  const objects = objectsOf(path)
    .filter((it) => it.kind !== "Namespace")
    .map((it) => ({ ...it, metadata: { namespace: "default", ...it.metadata } }));
  expect(objects).not.toHaveLength(0);
  for (const object of objects)
    expect(await fleet.client("a").create(resourceOf(object), object)).toMatchObject(object);
  for (const object of objects.toReversed())
    await fleet.client("a").delete(resourceOf(object), keyOf(object));
}

describe("manifests", () => {
  it.each(["member-1", "member-2", "member-3"])("of our example %s are accepted unchanged", (name) =>
    tryManifest(`${root}examples/${name}.yaml`),
  );

  it.skipIf(!existsSync(peers)).each(PUBLISHED)(
    "of other implementations apply unchanged: %s (skipped where they are not at hand)",
    (path) => tryManifest(`${peers}${path}`),
  );
});
