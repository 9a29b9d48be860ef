import { describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { INSTALL_MANAGER, memberManifests } from "@fairlead/fleet/cli/fleet/install/member-manifests.ts";
import { nodeDaemonSet } from "@fairlead/fleet/domain/node-daemon-set.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { applyWanted, UndoLog } from "@fairlead/fleet/cli/fleet/steps.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { startTestServer } from "../../packages/apiserver/test/support.ts";
import { at, chartFolder, HELMS, type Manifest, render, runHelm } from "../support/helm.ts";

/** The objects that `fairlead join` installs, compared with those of the chart for a release of the same name. */

const [helm] = HELMS;
const install = {
  image: "fairlead.dev/fairlead:0.1.0",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  dns: true,
} as const;

/** Without labels, which name the installer, and permissions that are recorded for update runs, which leave charts alone. */
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
      .replaceAll(/"env":\[\{"name":"FAIRLEAD_PERMISSIONS","value":"[0-9a-f ]+"\}\],/g, "")
      .replaceAll(",}", "}"),
  );
}

describe.skipIf(helm === undefined)("fairlead join", () => {
  it.each([false, true])(
    "installs what the chart of a member renders (with node agents, their metrics and the startup taint: %s)",
    async (nodes) => {
      const rendered = await render(
        helm?.program ?? "",
        "fairlead-member",
        [
          "fullnameOverride=fairlead-member",
          ...["install", "exposeMetrics", "startupTaint"].map((it) => `nodes.${it}=${nodes}`),
        ],
        "fairlead-member",
      );
      const kept = rendered.filter((it) => it.metadata.annotations?.["helm.sh/hook"] === undefined);
      const chart = new Map(kept.map((it) => [`${it.kind} ${it.metadata.name}`, shapeOf(it)]));
      const joined = new Map(
        memberManifests({ ...install, nodes, exposeNodeMetrics: nodes, startupTaint: nodes }).map(
          ({ of, object }) => [`${of.kind} ${object.metadata.name}`, shapeOf(object as unknown as Manifest)],
        ),
      );
      expect([...joined.keys()].toSorted()).toEqual([...chart.keys()].toSorted());
      for (const [name, shape] of joined) expect({ name, shape }).toEqual({ name, shape: chart.get(name) });
      expect(at(chart.get("Deployment fairlead-member"), "spec", "replicas")).toBe(2);
    },
  );
});

describe.skipIf(helm === undefined)("a member's agent", () => {
  it("installs the DaemonSet that the chart of node agents renders, with the ServiceAccount and rules of join", async () => {
    const chartWith = async (exposesMetrics: boolean) => {
      const values = [`metrics.expose=${exposesMetrics}`];
      const rendered = await render(helm?.program ?? "", "fairlead-node", values, "fairlead-node");
      return new Map(rendered.map((it) => [`${it.kind} ${it.metadata.name}`, shapeOf(it)]));
    };
    const image = `fairlead.dev/fairlead:${VERSION}`;
    for (const exposesMetrics of [true, false]) {
      const agents = nodeDaemonSet({ image, isRemoving: false, exposesMetrics });
      const rendered = (await chartWith(exposesMetrics)).get("DaemonSet fairlead-node");
      expect(shapeOf({ kind: "DaemonSet", ...agents } as unknown as Manifest)).toEqual(rendered);
    }
    const chart = await chartWith(false);
    for (const { of, object } of memberManifests({ ...install, nodes: true }))
      if (object.metadata.name.startsWith("fairlead-node"))
        expect(shapeOf(object as unknown as Manifest)).toEqual(
          chart.get(`${of.kind} ${object.metadata.name}`),
        );
  });
});

describe.skipIf(HELMS.length === 0).for(HELMS)("Helm $version", ({ program }) => {
  it("takes over what a join installed, in place, and upgrades it from then on", async () => {
    await using server = await startTestServer();
    const { kubeconfig } = server.server;
    await using client = connect(await loadKubeconfig(kubeconfig), systemDeps(silentLogger));
    await client.create(NAMESPACES, { metadata: { name: "fleet-system" } });
    const manifests = memberManifests(install);
    const { signal } = new AbortController();
    const side = { who: "the member", client, manager: INSTALL_MANAGER };
    for (const it of manifests) await applyWanted(side, it, new UndoLog(), signal);
    const present = () => Promise.all(manifests.map(async ({ of, object }) => client.get(of, keyOf(object))));
    const before = await present();

    const release = ["upgrade", "--install", "fairlead-member", chartFolder("fairlead-member")];
    // The kinds are another test's.
    const values = ["--set", "crds.install=false"];
    await runHelm(program, [...release, ...values, "--take-ownership"], { kubeconfig, home: server.dir });
    const after = await present();
    expect(after.map((it) => it.metadata.uid)).toEqual(before.map((it) => it.metadata.uid));
    for (const { metadata } of after)
      expect(metadata.labels).toMatchObject({ "app.kubernetes.io/managed-by": "Helm" });

    await runHelm(program, [...release, ...values, "--set", "image.tag=v9", "--set", "replicaCount=3"], {
      kubeconfig,
      home: server.dir,
    });
    const { spec } = await client.get(DEPLOYMENTS, objectKey("fleet-system", "fairlead-member"));
    expect(spec).toMatchObject({
      replicas: 3,
      template: { spec: { containers: [{ image: "fairlead.dev/fairlead:v9" }] } },
    });
  });
});
