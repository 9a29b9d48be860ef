import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { ensureNamespace, startFleet, type TestFleet } from "./fleet.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const peers = `${root}../shared/peers/`;

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"] });
  for (const namespace of ["work", "default", "demo"]) await ensureNamespace(fleet.client("a"), namespace);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

/** Objects of a manifest. The kinds that matter here have plain plurals. */
function objectsOf(path: string): KubeObject[] {
  return parseAllDocuments(readFileSync(path, "utf8"))
    .map((it) => it.toJS() as KubeObject | null)
    .filter((it) => it !== null);
}

async function create(object: KubeObject): Promise<KubeObject> {
  const kind = object.kind ?? "";
  const of = resource(object.apiVersion ?? "", kind, `${kind.toLowerCase()}s`);
  const metadata = { namespace: "default", ...object.metadata };
  return fleet.client("a").create(of, { ...object, metadata });
}

describe("manifests", () => {
  it.each(["member-1", "member-2", "member-3"])(
    "of our example %s are taken by an API server",
    async (name) => {
      for (const object of objectsOf(`${root}examples/${name}.yaml`)) {
        if (object.kind === "Namespace") continue;
        const unique = {
          ...object,
          metadata: { ...object.metadata, name: `${object.metadata.name}-${name}` },
        };
        expect(await create(unique)).toMatchObject({ metadata: { name: unique.metadata.name } });
      }
    },
  );

  it
    .skipIf(!existsSync(peers))
    .each([
      "Azure+fleet-networking/examples/getting-started/artifacts/svc-export.yaml",
      "Azure+fleet-networking/examples/getting-started/artifacts/mcs.yaml",
      "kubernetes-sigs+mcs-api/demo/yaml/serviceimport.yaml",
      "kubernetes-sigs+mcs-api/demo/yaml/serviceimport-with-vip.yaml",
    ])("of other implementations apply unchanged: %s (skipped where they are not at hand)", async (path) => {
    for (const [at, object] of objectsOf(`${peers}${path}`).entries()) {
      const unique = {
        ...object,
        metadata: { ...object.metadata, name: `${object.metadata.name}-${path.length}-${at}` },
      };
      const { metadata: _metadata, ...rest } = object;
      expect(await create(unique)).toMatchObject(rest);
    }
  });
});
