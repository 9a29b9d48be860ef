import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { UPDATE_CRDS } from "@fairlead/fleet/api/fairlead.dev/update-crds.ts";
import { UPDATE_RUNS, type UpdateRun } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { KUBECTL, NO_KUBECTL } from "../../packages/apiserver/test/support.ts";
import { startCluster, type TestCluster, testDeps } from "../support/fleet.ts";

/** What kubectl shows of update runs. */

const UPGRADES: Readonly<Record<string, UpdateRun["spec"]["managedClusterUpdate"]["upgrade"]>> = {
  clusters: { type: "Full", kubernetesVersion: "1.34.1" },
  programs: { type: "Components", componentsVersion: "0.1.1" },
};

describe.skipIf(KUBECTL === undefined)(
  KUBECTL === undefined ? `kubectl get updateruns (skipped: ${NO_KUBECTL})` : "kubectl get updateruns",
  () => {
    let cluster: TestCluster;
    beforeAll(async () => {
      cluster = await startCluster("hub", []);
      const options = { crds: UPDATE_CRDS, fieldManager: "test" };
      await installCrds(cluster.client, options, testDeps("test"), AbortSignal.timeout(20_000));
    }, 30_000);
    afterAll(() => cluster[Symbol.asyncDispose]());

    it("shows the version that a run leads to: of Kubernetes, or of our programs", async () => {
      for (const [name, upgrade] of Object.entries(UPGRADES))
        await cluster.client.create(UPDATE_RUNS, {
          metadata: { name },
          spec: { managedClusterUpdate: { upgrade } },
        });
      const { stdout } = await exec(KUBECTL ?? "", [
        "--kubeconfig",
        cluster.server.kubeconfig,
        "get",
        "updateruns",
      ]);
      const rows = stdout
        .trim()
        .split("\n")
        .map((it) => it.split(/ {2,}/).slice(0, 3).join(" "));
      expect(rows).toEqual(["NAME TYPE VERSION", "clusters Full 1.34.1", "programs Components 0.1.1"]);
    });
  },
);
