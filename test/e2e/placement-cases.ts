import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { MemberCluster } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { until } from "./clusters.ts";
import type { Fleet } from "./fleet.ts";
import type { Tally } from "./load.ts";
import {
  CLIENT,
  inNamespace,
  mcsExport,
  NAMESPACE,
  namespace,
  scripts,
  server,
  service,
} from "./manifests.ts";
import {
  API_VERSION,
  MEMBERS,
  PLACED_NAMESPACES,
  RUNS,
  STAGE_LABEL,
  STAGED,
  STORE,
  STRATEGY,
  WEB,
} from "./placements.ts";

const NAME = "placed";
const DEPLOYMENT = `deployment/${NAME}`;
const URL = `http://${NAME}.${STAGED}.svc.clusterset.local/`;
const REFUSED = /the hub of a fleet runs no workloads/;

/**
 * What the hub places on two members, and what its guard rails refuse. Until the last of these cases the hub refuses pods outside of
 * reserved namespaces, also where it is a member itself.
 */
export function describePlacements(fleet: Fleet): void {
  const { clusters, exporter, importer, placements } = fleet;
  const { hub } = clusters;
  const members = [exporter, importer];

  describe.skipIf(members.includes(hub))("the hub", () => {
    let before = "";

    beforeAll(async () => {
      const history = await clusters.helm(hub, ["history", "fairlead-hub", "-o", "json"]);
      before = String((JSON.parse(history) as readonly { revision: number }[]).at(-1)?.revision);
      await clusters.chart(hub, ["upgrade", "--reuse-values"], "fairlead-hub", ["guardRails.workloads=deny"]);
      if ((await clusters.find(importer, ["-n", NAMESPACE, "deployment", CLIENT])) === undefined)
        await fleet.startClient([`${NAME}=${URL}`]);
    });

    describe("with a placement of a namespace", () => {
      it("runs what is in it on the members, which export it, and answer in each other", async () => {
        const { image } = clusters.settings;
        const echo = server({ name: NAME, cluster: "nowhere", image, replicas: 1 });
        const staged = [scripts(), echo, service(NAME), mcsExport(NAME), override()];
        await clusters.apply(hub, namespace(STAGED), ...inNamespace(STAGED, ...staged));
        await placements.place(STAGED, members);
        await placements.untilAvailable(STAGED, members);
        await untilAnsweredBy(members);
        expect(await clusters.fairlead(["placement", "status", STAGED, "--hub-context", hub])).toContain(
          importer,
        );
      });

      it("has no pods of it", async () => {
        const pods = await clusters.kubectl(hub, ["-n", STAGED, "get", "pods,replicasets", "-o", "name"]);
        expect(pods).toBe("");
      });

      it("puts back what is changed or deleted in a member", async () => {
        const replicas = async (): Promise<number | undefined> =>
          (await clusters.find<{ spec: { replicas: number } }>(exporter, ["-n", STAGED, "deployment", NAME]))
            ?.spec.replicas;
        await clusters.kubectl(exporter, ["-n", STAGED, "scale", DEPLOYMENT, "--replicas=0"]);
        await until("the replicas are put back", replicas, (it) => it === 1);
        await clusters.kubectl(exporter, ["-n", STAGED, "delete", DEPLOYMENT]);
        await until("the Deployment is put back", replicas, (it) => it === 1);
        await clusters.rolledOut(exporter, STAGED, DEPLOYMENT);
        await untilAnsweredBy(members);
      });

      it("takes it from a member that the policy does not pick any more, and leaves the other alone", async () => {
        await placements.place(STAGED, [importer]);
        await until(
          "the namespace is gone",
          () => clusters.find(exporter, ["namespace", STAGED]),
          (it) => it === undefined,
        );
        await untilAnsweredBy([importer]);
      });
    });

    describe("with a web application that Helm installs", () => {
      const release = { name: "web", namespace: WEB };
      const untilAnswered = async (greeting: string, replicas: number): Promise<void> => {
        for (const member of members) {
          await until(
            `${member} answers ${greeting}`,
            () => placements.answer(member, WEB, "deployment/web", "web"),
            (it) => it === greeting,
          );
          await clusters.rolledOut(member, WEB, "deployment/web");
          const found = await clusters.find<{ spec: { replicas: number } }>(member, [
            "-n",
            WEB,
            "deployment",
            "web",
          ]);
          expect({ member, replicas: found?.spec.replicas }).toEqual({ member, replicas });
        }
      };

      it("places it, its upgrade and its rollback on the members", async () => {
        await clusters.application(hub, { verb: ["install", "--create-namespace"], ...release });
        await placements.place(WEB, members);
        await placements.untilAvailable(WEB, members);
        await untilAnswered("one", 1);
        for (const member of members)
          await clusters.kubectl(member, ["-n", WEB, "get", "configmap/web", "service/web", "pdb/web"]);
        await clusters.application(hub, {
          verb: ["upgrade"],
          ...release,
          values: ["greeting=two", "replicas=2"],
        });
        await untilAnswered("two", 2);
        await clusters.application(hub, { verb: ["rollback", "web", "1"], ...release });
        await untilAnswered("one", 1);
        await placements.untilAvailable(WEB, members);
      });
    });

    describe("with an application with state that Helm installs, and staged runs", () => {
      const release = { name: "store", namespace: STORE };
      const pod = "store-1";
      const answers = (): Promise<readonly string[]> =>
        Promise.all(
          members.map((it) =>
            placements.answer(it, STORE, `pod/${pod}`, `${pod}.store.${STORE}.svc.cluster.local:8080`),
          ),
        );
      const untilAnswered = (...words: readonly string[]): Promise<unknown> =>
        until(`answers ${words.join(" and ")}`, answers, (it) => it.join() === words.join());
      const start = (name: string): Promise<void> =>
        clusters.apply(hub, {
          apiVersion: API_VERSION,
          kind: "ClusterStagedUpdateRun",
          metadata: { name },
          spec: { placementName: STORE, stagedRolloutStrategyName: STRATEGY, state: "Run" },
        });
      const approve = (run: string): Promise<string> =>
        clusters.fairlead(["placement", "approve", run, "first", "--hub-context", hub]);
      const isTrue = (run: string, type: string): Promise<unknown> =>
        clusters.kubectl(hub, ["wait", `${RUNS}/${run}`, `--for=condition=${type}=True`, "--timeout=180s"]);

      beforeAll(async () => {
        for (const [index, stage] of ["first", "rest"].entries())
          await clusters.kubectl(hub, ["label", MEMBERS, members[index] ?? "", `${STAGE_LABEL}=${stage}`]);
        await clusters.apply(hub, strategy());
        await clusters.application(hub, { verb: ["install", "--create-namespace"], ...release });
        await placements.place(STORE, members, { type: "External" });
      });

      it("changes nothing on the members without a run", async () => {
        await start("e2e-one");
        await approve("e2e-one");
        await isTrue("e2e-one", "Succeeded");
        await untilAnswered("one", "one");
        await clusters.application(hub, { verb: ["upgrade"], ...release, values: ["word=two"] });
        expect(await answers()).toEqual(["one", "one"]);
      });

      it("upgrades the first stage, and the other after its approval", async () => {
        await start("e2e-two");
        await until(
          "the run waits for an approval",
          () => clusters.fairlead(["placement", "run", "e2e-two", "--hub-context", hub]),
          (it) => it.includes("e2e-two-after-first"),
        );
        await untilAnswered("two", "one");
        await approve("e2e-two");
        await isTrue("e2e-two", "Succeeded");
        await untilAnswered("two", "two");
      });

      it("rolls it back in the same stages", async () => {
        await clusters.application(hub, { verb: ["rollback", "store", "1"], ...release });
        await start("e2e-three");
        await untilAnswered("one", "two");
        await approve("e2e-three");
        await isTrue("e2e-three", "Succeeded");
        await untilAnswered("one", "one");
      });

      afterAll(async () => {
        await clusters.kubectl(hub, ["label", MEMBERS, ...members, `${STAGE_LABEL}-`]);
      });
    });

    describe("with its guard rails", () => {
      /** As another user or group would. */
      const as = (user: string, ...args: readonly string[]) => clusters.kubectl(hub, ["--as", user, ...args]);
      const dryRun = (...objects: readonly object[]): Promise<string> =>
        clusters.kubectl(hub, ["create", "--dry-run=server", "-f", "-"], {
          input: objects.map((it) => JSON.stringify(it)).join("\n---\n"),
        });

      beforeAll(() => clusters.apply(hub, namespace(STAGED)));

      it("refuses a Pod and a ReplicaSet outside of reserved namespaces", async () => {
        const { image } = clusters.settings;
        // Its pods are such as the namespace permits.
        const deployment = server({ name: "refused", cluster: hub, image, replicas: 1 });
        const { template } = deployment["spec"] as { readonly template: Template };
        const [replicaSet] = inNamespace(STAGED, { ...deployment, kind: "ReplicaSet" });
        const metadata = { ...template.metadata, namespace: STAGED, name: "refused" };
        const pod = { apiVersion: "v1", kind: "Pod", metadata, spec: template.spec };
        await expect(dryRun(pod)).rejects.toThrow(REFUSED);
        await expect(dryRun(replicaSet ?? {})).rejects.toThrow(REFUSED);
      });

      it("keeps a member in its own mailbox", async () => {
        const { user, groups } = await identityOf(exporter);
        const asMember = (...args: readonly string[]): Promise<string> =>
          as(user, ...groups.flatMap((it) => ["--as-group", it]), ...args);
        const works = "works.placement.kubernetes-fleet.io";
        await asMember("-n", mailbox(exporter), "get", works);
        const forbidden = [
          ["-n", mailbox(importer), "get", works],
          ["-n", STAGED, "get", "secrets"],
          ["-n", mailbox(importer), "create", "configmap", "refused"],
          ["create", "namespace", "fairlead-e2e-refused"],
          ["label", MEMBERS, importer, "refused=true"],
        ];
        for (const args of forbidden) await expect(asMember(...args)).rejects.toThrow(/forbidden/i);
      });

      it("keeps people who are not administrators of the fleet out of its namespaces, whatever RBAC permits", async () => {
        const someone = "fairlead-e2e-someone";
        const create = (inside: string): Promise<string> =>
          as(someone, "-n", inside, "create", "configmap", someone, "--dry-run=server");
        for (const it of [STAGED, mailbox(exporter)])
          await clusters.kubectl(hub, [
            "-n",
            it,
            "create",
            "rolebinding",
            someone,
            "--clusterrole=admin",
            `--user=${someone}`,
          ]);
        await until(
          "the user has the role",
          () => create(STAGED),
          (it) => it.includes("created"),
        );
        await expect(create(mailbox(exporter))).rejects.toThrow(/ValidatingAdmissionPolicy/);
        for (const it of [STAGED, mailbox(exporter)])
          await clusters.kubectl(hub, ["-n", it, "delete", "rolebinding", someone]);
      });
    });

    afterAll(async () => {
      if (clusters.settings.keep) return;
      await placements.remove(PLACED_NAMESPACES);
      await clusters.helm(hub, ["rollback", "fairlead-hub", before, "--wait"]);
    });
  });

  async function untilAnsweredBy(expected: readonly string[]): Promise<void> {
    await until(
      `${expected.join(" and ")} answer`,
      async () => {
        const { by, failed } = await fleet.inClient<Tally>("ask", URL, "40");
        return failed === 0 ? Object.keys(by).toSorted().join() : "";
      },
      (it) => it === expected.toSorted().join(),
    );
  }

  const mailbox = (member: string): string => `fleet-member-${member}`;

  async function identityOf(member: string): Promise<Identity> {
    const found = await clusters.find<MemberCluster>(hub, [MEMBERS, member]);
    const { kind = "", name = "", namespace: of = "" } = found?.spec.identity ?? {};
    if (kind !== "ServiceAccount") return { user: name, groups: ["system:authenticated", "fleet:members"] };
    return {
      user: `system:serviceaccount:${of}:${name}`,
      groups: ["system:authenticated", "system:serviceaccounts", `system:serviceaccounts:${of}`],
    };
  }
}

interface Template {
  readonly metadata: object;
  readonly spec: object;
}

interface Identity {
  readonly user: string;
  readonly groups: readonly string[];
}

/** Servers answer with the name of the cluster that they were placed on. */
function override(): Readonly<Record<string, unknown>> {
  return {
    apiVersion: API_VERSION,
    kind: "ResourceOverride",
    metadata: { name: NAME },
    spec: {
      placement: { name: STAGED },
      resourceSelectors: [{ group: "apps", version: "v1", kind: "Deployment", name: NAME }],
      policy: {
        overrideRules: [
          {
            clusterSelector: { clusterSelectorTerms: [] },
            jsonPatchOverrides: [
              {
                op: "replace",
                path: "/spec/template/spec/containers/0/env/0/value",
                value: "${MEMBER-CLUSTER-NAME}",
              },
            ],
          },
        ],
      },
    },
  };
}

/** The first of two members, an approval, and the other. */
function strategy(): object {
  const stage = (name: string) => ({ name, labelSelector: { matchLabels: { [STAGE_LABEL]: name } } });
  return {
    apiVersion: API_VERSION,
    kind: "ClusterStagedUpdateStrategy",
    metadata: { name: STRATEGY },
    spec: { stages: [{ ...stage("first"), afterStageTasks: [{ type: "Approval" }] }, stage("rest")] },
  };
}
