import { describe, expect, it } from "vitest";
import { memberManifests } from "#cli/fleet/install/member-manifests.ts";
import { at, HELMS, type Manifest, render } from "./helm.ts";

/** What `fairlead join` installs, beside what the chart renders for a release of the name that it takes. */

const [helm] = HELMS;
const install = {
  image: "fairlead.dev/fairlead:0.1.0",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  dns: true,
} as const;

/** Without labels, which say who installed it. */
function shapeOf(object: Manifest): unknown {
  const {
    metadata,
    apiVersion: _,
    spec,
    rules,
    roleRef,
    subjects,
  } = object as Manifest & Record<string, unknown>;
  const { name, namespace } = metadata;
  return JSON.parse(
    JSON.stringify({ name, namespace, spec, rules, roleRef, subjects })
      .replaceAll(/"(helm\.sh\/chart|app\.kubernetes\.io\/(version|managed-by|part-of))":"[^"]*",?/g, "")
      .replaceAll(",}", "}"),
  );
}

describe.skipIf(helm === undefined)("fairlead join", () => {
  it("installs what the chart of a member renders", async () => {
    const rendered = await render(
      helm?.program ?? "",
      "fairlead-member",
      ["fullnameOverride=fairlead-member"],
      "fairlead-member",
    );
    const kept = rendered.filter(
      (it) => it.metadata.annotations?.["helm.sh/hook"] === undefined && it.kind !== "PodDisruptionBudget",
    );
    const chart = new Map(kept.map((it) => [`${it.kind} ${it.metadata.name}`, shapeOf(it)]));
    const joined = new Map(
      memberManifests(install).map(({ of, object }) => [
        `${of.kind} ${object.metadata.name}`,
        shapeOf(object as unknown as Manifest),
      ]),
    );
    expect([...joined.keys()].toSorted()).toEqual([...chart.keys()].toSorted());
    for (const [name, shape] of joined) expect({ name, shape }).toEqual({ name, shape: chart.get(name) });
    expect(at(chart.get("Deployment fairlead-member"), "spec", "replicas")).toBe(2);
  });
});
