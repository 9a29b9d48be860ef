import { existsSync, readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { isObject } from "#base/json.ts";
import { crdManifests } from "../../../scripts/crd-manifests.ts";
import { HUB_CRDS, MEMBER_CRDS } from "./all.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const peers = `${root}../shared/peers/`;
const PUBLISHED = [
  "Azure+fleet-networking/config/crd/bases",
  "kubefleet-dev+kubefleet/config/crd/bases",
  "kubernetes-sigs+mcs-api/config/crd",
];
const ours = new Map([...HUB_CRDS, ...MEMBER_CRDS].map((it) => [it.metadata.name, it]));

describe("our CustomResourceDefinitions", () => {
  it("are kept as manifests that say the same", () => {
    for (const [name, text] of crdManifests()) {
      expect(
        readFileSync(`${root}docs/reference/crds/${name}`, "utf8"),
        `node scripts/generate-crds.ts`,
      ).toBe(text);
    }
  });

  it("store exactly one version each, and serve all", () => {
    for (const crd of ours.values()) {
      expect(crd.spec.versions.filter((it) => it.storage)).toHaveLength(1);
      expect(crd.spec.versions.every((it) => it.served)).toBe(true);
    }
  });

  it("have one shape in every version of a kind of networking.fleet.azure.com and multicluster.x-k8s.io", () => {
    for (const crd of ours.values()) {
      if (crd.spec.group.startsWith("cluster.")) continue;
      for (const version of crd.spec.versions)
        expect(withoutRules(version.schema)).toEqual(withoutRules(crd.spec.versions[0]?.schema));
    }
  });
});

/** Rules may be stricter in a newer version, as published: nobody has to write what it refuses. */
function withoutRules(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => (key === "x-kubernetes-validations" ? undefined : inner)),
  );
}

/** Where ours is narrower than theirs: each difference is a sentence. */
function narrower(theirs: unknown, mine: unknown, path: string): string[] {
  if (!isObject(theirs)) return [];
  if (!isObject(mine)) return [`${path} is missing`];
  const [theirFields, myFields] = [theirs["properties"], mine["properties"]];
  const fields = Object.keys(isObject(theirFields) ? theirFields : {});
  return [
    ...fields.flatMap((name) => narrower(at(theirFields, name), at(myFields, name), `${path}.${name}`)),
    ...["items", "additionalProperties"].flatMap((key) => narrower(theirs[key], mine[key], `${path}[]`)),
    ...missing(mine["required"], theirs["required"]).map((name) => `${path} requires ${name}`),
    ...(Array.isArray(mine["enum"]) ? missing(theirs["enum"], mine["enum"]) : []).map(
      (value) => `${path} refuses ${value}`,
    ),
    ...SAME.filter((key) => JSON.stringify(theirs[key]) !== JSON.stringify(mine[key])).map(
      (key) => `${path}: ${key} differs`,
    ),
  ];
}

function at(of: unknown, name: string): unknown {
  return isObject(of) ? of[name] : undefined;
}

/** Members of the first list that the second lacks. */
function missing(of: unknown, from: unknown): string[] {
  const present = new Set<unknown>(Array.isArray(from) ? from : []);
  return (Array.isArray(of) ? of : []).filter((it) => !present.has(it)).map(String);
}

const SAME = [
  "type",
  "format",
  "default",
  "pattern",
  "minimum",
  "maximum",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "anyOf",
  "x-kubernetes-int-or-string",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
];

function readPublished(): Record<string, unknown>[] {
  return PUBLISHED.flatMap((folder) =>
    readdirSync(`${peers}${folder}`).flatMap((file) =>
      parseAllDocuments(readFileSync(`${peers}${folder}/${file}`, "utf8"))
        .map((it) => it.toJS() as unknown)
        .filter(isObject),
    ),
  );
}

describe.skipIf(!existsSync(peers))("beside the published ones (skipped where they are not at hand)", () => {
  const pairs = (existsSync(peers) ? readPublished() : []).flatMap((theirs) => {
    const mine = ours.get((theirs["metadata"] as { name: string }).name);
    return mine === undefined ? [] : [[mine.metadata.name, theirs, mine] as const];
  });

  it("cover every kind of the two networking groups and of membership", () => {
    expect(pairs.map(([name]) => name).toSorted()).toHaveLength(13);
  });

  it.each(pairs)("%s has the names, columns and subresources that theirs has", (_, theirs, mine) => {
    const spec = theirs["spec"] as (typeof mine)["spec"];
    expect(mine.spec.names).toMatchObject(spec.names);
    expect(mine.spec.scope).toBe(spec.scope);
    for (const version of spec.versions) {
      const same = mine.spec.versions.find((it) => it.name === version.name);
      expect(same?.storage).toBe(version.storage);
      expect(same?.subresources).toEqual(version.subresources);
      const columns = (of: typeof version | undefined): unknown =>
        of?.additionalPrinterColumns?.map(({ description: _description, ...rest }) => rest);
      expect(columns(same)).toEqual(columns(version));
      const rules = version.schema.openAPIV3Schema["x-kubernetes-validations"];
      expect(JSON.stringify(sorted(same?.schema.openAPIV3Schema["x-kubernetes-validations"]))).toBe(
        JSON.stringify(sorted(rules)),
      );
    }
  });

  it.each(pairs)("%s accepts, keeps and defaults whatever theirs does", (_, theirs, mine) => {
    const spec = theirs["spec"] as (typeof mine)["spec"];
    for (const version of spec.versions) {
      const same = mine.spec.versions.find((it) => it.name === version.name);
      expect(narrower(version.schema.openAPIV3Schema, same?.schema.openAPIV3Schema, version.name)).toEqual(
        [],
      );
    }
  });
});

function sorted(rules: readonly { rule: string; message?: string }[] | undefined): unknown {
  return rules?.map(({ rule, message }) => ({ rule, message }));
}
