import { existsSync, readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { checkRules } from "@fairlead/apiserver/cel/rules/check.ts";
import { checkStructural } from "@fairlead/apiserver/crd/structural/structural.ts";
import type { Schema } from "@fairlead/apiserver/schema/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import { HUB_CRDS, MEMBER_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const peers = `${root}../shared/peers/`;
const PUBLISHED = [
  "Azure+fleet-networking/config/crd/bases",
  "kubefleet-dev+kubefleet/config/crd/bases",
  "kubernetes-sigs+mcs-api/config/crd",
];
const ourCrds = new Map([...HUB_CRDS, ...MEMBER_CRDS, ...POLICY_CRDS].map((it) => [it.metadata.name, it]));

describe("our CustomResourceDefinitions", () => {
  it("have structural schemas, whose rules compile", () => {
    for (const crd of ourCrds.values()) {
      for (const version of crd.spec.versions) {
        const schema = version.schema.openAPIV3Schema as Schema;
        expect(checkStructural(schema, crd.metadata.name)).toEqual([]);
        expect(checkRules(schema, crd.metadata.name)).toEqual([]);
      }
    }
  });

  it("store exactly one version each, and serve all", () => {
    for (const crd of ourCrds.values()) {
      expect(crd.spec.versions.filter((it) => it.storage)).toHaveLength(1);
      expect(crd.spec.versions.every((it) => it.served)).toBe(true);
    }
  });

  it("take no first port of gateways and relays after which the last one is above 65535", () => {
    const most = ["gateways", "relays", "meshnetworks"].flatMap((plural) =>
      (ourCrds.get(`${plural}.fairlead.dev`)?.spec.versions ?? []).flatMap(({ schema }) =>
        [...pathsOf(schema.openAPIV3Schema)].flatMap(([path, { maximum }]) =>
          path.endsWith("basePort") ? [`${plural} ${path} ${maximum as number}`] : [],
        ),
      ),
    );
    expect(most).toEqual([
      `gateways spec.basePort ${65_535 - 7}`,
      `gateways spec.candidates[].basePort ${65_535 - 7}`,
      `relays spec.basePort ${65_535 - 1023}`,
      `meshnetworks spec.relays[].basePort ${65_535 - 1023}`,
    ]);
  });

  it("have one shape in every version of a kind of networking.fleet.azure.com and multicluster.x-k8s.io", () => {
    for (const crd of ourCrds.values()) {
      if (crd.spec.group.endsWith("kubernetes-fleet.io")) continue;
      for (const version of crd.spec.versions)
        expect(withoutRules(version.schema)).toEqual(withoutRules(crd.spec.versions[0]?.schema));
    }
  });
});

/** Rules may be stricter in a newer version, as published: no client must write what it rejects. */
function withoutRules(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => (key === "x-kubernetes-validations" ? undefined : inner)),
  );
}

/** Paths of all fields of a schema, with nested ones. */
function pathsOf(schema: unknown, path = ""): Map<string, Record<string, unknown>> {
  const found = new Map<string, Record<string, unknown>>();
  if (!isObject(schema)) return found;
  const merge = (more: Map<string, Record<string, unknown>>): void =>
    more.forEach((value, key) => found.set(key, value));
  const fields = schema["properties"];
  for (const [name, field] of Object.entries(isObject(fields) ? fields : {})) {
    const own = path === "" ? name : `${path}.${name}`;
    if (isObject(field)) found.set(own, field);
    merge(pathsOf(field, own));
  }
  merge(pathsOf(schema["items"], `${path}[]`));
  return found;
}

/** Kind and path of what we added to a published kind, as the descriptions say; the topmost of each. */
function describedAdditions(): string[] {
  return [...ourCrds.values()].flatMap((crd) =>
    crd.spec.versions.flatMap((version) =>
      [...pathsOf(version.schema.openAPIV3Schema)]
        .filter(
          ([, { description }]) =>
            typeof description === "string" && /\bAddition\b|is an addition/.test(description),
        )
        .map(([path]) => `${crd.spec.names.kind} ${path}`),
    ),
  );
}

/** By kind: what the table of additions names in the rows of its fields. */
function documentedAdditions(): Map<string, string[]> {
  const text = readFileSync(`${root}docs/reference/crds.md`, "utf8");
  const table = text.slice(text.indexOf("## Additions"), text.indexOf("## Names"));
  const rows = new Map<string, string[]>();
  let kinds: string[] = [];
  for (const line of table.split("\n").filter((it) => it.startsWith("| "))) {
    const [kindCell = "", fieldCell = ""] = line
      .split("|")
      .slice(1)
      .map((it) => it.trim());
    if (kindCell !== "") kinds = kindCell.split(",").map((it) => it.replace(/\(.*?\)/g, "").trim());
    const names = [...fieldCell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    for (const kind of kinds) rows.set(kind, [...(rows.get(kind) ?? []), ...names]);
  }
  return rows;
}

describe("Fairlead's additions to published kinds", () => {
  const documented = documentedAdditions();

  it.each([...new Set(describedAdditions())])("is in the list of additions: %s", (addition) => {
    const [kind = "", path = ""] = addition.split(" ");
    const last = path.split(".").at(-1) ?? "";
    const words = (documented.get(kind) ?? []).flatMap((it) => it.split(/[.[\]: ]+/));
    expect(words).toContain(last);
  });

  it("exists in the object for each field that the list names", () => {
    const missingFields = [...documented].flatMap(([kind, names]) => {
      const paths = new Set(
        [...ourCrds.values()]
          .filter((it) => it.spec.names.kind === kind)
          .flatMap((crd) =>
            crd.spec.versions.flatMap((it) => [...pathsOf(it.schema.openAPIV3Schema).keys()]),
          ),
      );
      const fields = names
        .filter((it) => /^(spec|status)\./.test(it))
        .map((it) => it.replace(/(\[\])?(:.*)?$/, ""));
      return fields.filter((it) => !paths.has(it)).map((it) => `${kind} ${it}`);
    });
    expect(missingFields).toEqual([]);
  });
});

/** Differences that make our schema narrower than the published one, each as a sentence. */
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

/** Path, rule and message of every CEL rule, with spaces as one. */
function rulesIn(schema: unknown): string[] {
  const all = new Map([["", isObject(schema) ? schema : {}], ...pathsOf(schema)]);
  return [...all].flatMap(([path, field]) =>
    ["", "items"].flatMap((of) => {
      const rules = at(of === "" ? field : field[of], "x-kubernetes-validations") ?? [];
      return (rules as { rule: string; message?: string }[]).map(({ rule, message = "" }) =>
        [path, of, rule, message].join(" ").replaceAll(/\s+/g, " "),
      );
    }),
  );
}

function readPublished(): Record<string, unknown>[] {
  return PUBLISHED.flatMap((folder) =>
    readdirSync(`${peers}${folder}`).flatMap((file) =>
      parseAllDocuments(readFileSync(`${peers}${folder}/${file}`, "utf8"))
        .map((it) => it.toJS() as unknown)
        .filter(isObject),
    ),
  );
}

describe.skipIf(!existsSync(peers))(
  "compared with the published ones (skipped if they are not available)",
  () => {
    const pairs = (existsSync(peers) ? readPublished() : []).flatMap((theirs) => {
      const mine = ourCrds.get((theirs["metadata"] as { name: string }).name);
      return mine === undefined ? [] : [[mine.metadata.name, theirs, mine] as const];
    });

    it("cover every kind of the two networking groups, of membership and of placement", () => {
      expect(pairs.map(([name]) => name).toSorted()).toHaveLength(39);
    });

    it.each(pairs)("%s has the names, columns and subresources of the published one", (_, theirs, mine) => {
      const spec = theirs["spec"] as (typeof mine)["spec"];
      expect(mine.spec.names).toMatchObject(spec.names);
      expect(mine.spec.scope).toBe(spec.scope);
      for (const version of spec.versions) {
        const same = mine.spec.versions.find((it) => it.name === version.name);
        expect(same?.storage).toBe(version.storage);
        expect(same?.subresources ?? {}).toEqual(version.subresources ?? {});
        const columns = (of: typeof version | undefined): unknown =>
          of?.additionalPrinterColumns?.map(({ description: _description, ...rest }) => rest);
        expect(columns(same)).toEqual(columns(version));
        const rules = version.schema.openAPIV3Schema["x-kubernetes-validations"];
        expect(JSON.stringify(sorted(same?.schema.openAPIV3Schema["x-kubernetes-validations"]))).toBe(
          JSON.stringify(sorted(rules)),
        );
      }
    });

    it.each(pairs)(
      "%s accepts, keeps and defaults everything that the published one does",
      (_, theirs, mine) => {
        const spec = theirs["spec"] as (typeof mine)["spec"];
        for (const version of spec.versions) {
          const same = mine.spec.versions.find((it) => it.name === version.name);
          expect(
            narrower(version.schema.openAPIV3Schema, same?.schema.openAPIV3Schema, version.name),
          ).toEqual([]);
        }
      },
    );

    it.each(pairs)("%s has every rule of the published one", (_, theirs, mine) => {
      const spec = theirs["spec"] as (typeof mine)["spec"];
      for (const version of spec.versions) {
        const same = mine.spec.versions.find((it) => it.name === version.name);
        const ours = new Set(rulesIn(same?.schema.openAPIV3Schema));
        expect(rulesIn(version.schema.openAPIV3Schema).filter((it) => !ours.has(it))).toEqual([]);
      }
    });

    it.each(pairs)("%s has only the published fields and those marked as additions", (_, theirs, mine) => {
      const spec = theirs["spec"] as (typeof mine)["spec"];
      const described = new Set(describedAdditions());
      for (const version of spec.versions) {
        const known = pathsOf(version.schema.openAPIV3Schema);
        const same = mine.spec.versions.find((it) => it.name === version.name);
        const added = [...pathsOf(same?.schema.openAPIV3Schema).keys()].filter((it) => !known.has(it));
        const topmost = added.filter(
          (it) => !added.some((other) => it.startsWith(`${other}.`) || it.startsWith(`${other}[`)),
        );
        expect(topmost.filter((it) => !described.has(`${mine.spec.names.kind} ${it}`))).toEqual([]);
        const wrongly = [...known.keys()].filter((it) => {
          const description = pathsOf(same?.schema.openAPIV3Schema).get(it)?.["description"];
          return typeof description === "string" && description.startsWith("Addition");
        });
        expect(wrongly).toEqual([]);
      }
    });
  },
);

function sorted(rules: readonly { rule: string; message?: string }[] | undefined): unknown {
  return rules?.map(({ rule, message }) => ({ rule, message }));
}
