import { defined } from "@fairlead/base/defined.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Node, Pod, PodSpec, Taint, Toleration } from "@fairlead/kube/api/core/v1/types.ts";
import { tolerates } from "../taints.ts";
import { planSchedule, type SchedulePlan } from "./plan.ts";
import { requestsOf } from "./resources.ts";
import { NodeView } from "./snapshot.ts";

interface NodeParts {
  readonly pods?: readonly Pod[];
  readonly ready?: boolean;
  readonly labels?: Record<string, string>;
  readonly taints?: Taint[];
  readonly unschedulable?: boolean;
  readonly room?: Record<string, string>;
}

function node(name: string, parts: NodeParts = {}): NodeView {
  const { pods = [], ready = true, labels = {}, taints, unschedulable, room } = parts;
  const spec = {
    ...defined({ taints, unschedulable }),
  };
  const conditions = [{ type: "Ready", status: ready ? ("True" as const) : ("False" as const) }];
  const object: Node = {
    metadata: { name, labels: { "kubernetes.io/hostname": name, ...labels } },
    spec,
    status: { conditions, allocatable: { pods: "110", cpu: "4", memory: "8Gi", ...room } },
  };
  return new NodeView(object, pods);
}

function pod(spec: Partial<PodSpec> = {}, labels: Record<string, string> = {}): Pod {
  const ownerReferences =
    labels["app"] === undefined
      ? []
      : [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "x", uid: labels["app"], controller: true }];
  return {
    metadata: { name: "p", namespace: "work", labels, ownerReferences },
    spec: { containers: [], ...spec },
  };
}

function plan(of: Pod, nodes: readonly NodeView[]): SchedulePlan {
  return planSchedule(of, { nodes, labelsOfNamespace: (name) => ({ name }) });
}

const asking = (requests: Record<string, string>): Partial<PodSpec> => ({
  containers: [{ name: "c", resources: { requests } }],
});
const bound = (name: string) => ({ act: "bind", node: name });
const why = (of: Pod, nodes: readonly NodeView[]): string => {
  const made = plan(of, nodes);
  return made.act === "wait" ? made.message : `bound to ${made.node}`;
};
const NO_HELP = (count: number): string =>
  ` no new claims to deallocate, preemption: 0/${count} nodes are available: ${count} Preemption is not helpful for scheduling.`;

describe("a pod", () => {
  it("goes to the node with the fewest pods of its owner, then the fewest pods, then the first name", () => {
    const own = pod({}, { app: "web" });
    expect(plan(own, [node("a", { pods: [own] }), node("b", { pods: [pod(), pod()] })])).toEqual(bound("b"));
    expect(plan(own, [node("a", { pods: [pod(), pod()] }), node("b", { pods: [pod()] })])).toEqual(
      bound("b"),
    );
    expect(plan(own, [node("b"), node("a")])).toEqual(bound("a"));
  });

  it("gets the reason of every node that it does not fit, in kube-scheduler's words", () => {
    const nodes = [
      node("a", { ready: false }),
      node("b", { unschedulable: true }),
      node("c", { taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }] }),
      node("d", { room: { pods: "1" }, pods: [pod()], labels: { disk: "fast" } }),
      node("e"),
      node("f"),
    ];
    expect(why(pod({ nodeSelector: { disk: "fast" } }), nodes)).toBe(
      "0/6 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, " +
        "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s). " +
        "no new claims to deallocate, preemption: 0/6 nodes are available: " +
        "1 No preemption victims found for incoming pod, 5 Preemption is not helpful for scheduling.",
    );
    expect(why(pod(), [])).toBe("no nodes available to schedule pods");
  });

  it("goes only to a node with enough free resources", () => {
    const big = pod(asking({ cpu: "1500m", memory: "1Gi" }));
    const busy = node("a", { pods: [pod(asking({ cpu: "3" }))] });
    expect(plan(big, [busy, node("b")])).toEqual(bound("b"));
    expect(why(big, [busy])).toContain("0/1 nodes are available: 1 Insufficient cpu. no new");
    expect(why(pod(asking({ cpu: "5", "example.com/gpu": "1" })), [node("a")])).toBe(
      `0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu.${NO_HELP(1)}`,
    );
  });

  it("fits if there is exactly enough room, with fractions of a CPU", () => {
    const third = pod(asking({ cpu: "100m" }));
    const room = { cpu: "300m" };
    expect(plan(third, [node("a", { room, pods: [third, third] })])).toMatchObject(bound("a"));
    expect(why(third, [node("a", { room, pods: [third, third, third] })])).toContain("1 Insufficient cpu");
  });

  it("needs the largest request of its init containers plus that of the sidecars started before", () => {
    const init = (cpu: string, restartPolicy?: "Always") => ({
      name: cpu,
      resources: { requests: { cpu } },
      ...defined({ restartPolicy }),
    });
    const spec = { ...asking({ cpu: "1" }), initContainers: [init("3"), init("1", "Always"), init("2500m")] };
    expect(requestsOf(pod(spec)).get("cpu")).toBe(3500);
  });

  it("does not go to a node whose host port is taken", () => {
    const port = (hostIP?: string): Partial<PodSpec> => ({
      containers: [
        {
          name: "c",
          ports: [{ containerPort: 80, hostPort: 80, ...defined({ hostIP }) }],
        },
      ],
    });
    const taken = node("a", { pods: [pod(port("10.0.0.1"))] });
    expect(plan(pod(port("10.0.0.2")), [taken])).toEqual(bound("a"));
    expect(why(pod(port()), [taken])).toContain("didn't have free ports for the requested pod ports");
  });

  it("obeys node affinity: one term that holds is enough, and wishes decide among the rest", () => {
    const term = (zone: string) => ({
      matchExpressions: [{ key: "zone", operator: "In" as const, values: [zone] }],
    });
    const nodeAffinity = {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term("1"), term("2")] },
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: term("2") }],
    };
    const zones = ["0", "1", "2"].map((zone) => node(`n${zone}`, { labels: { zone } }));
    expect(plan(pod({ affinity: { nodeAffinity } }), zones)).toEqual(bound("n2"));
    expect(plan(pod({ affinity: { nodeAffinity } }), zones.slice(0, 2))).toEqual(bound("n1"));
  });

  it("with an affinity for one node by name does not match the other nodes", () => {
    const matchFields = [{ key: "metadata.name", operator: "In" as const, values: ["z"] }];
    const required = {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
    };
    expect(why(pod({ affinity: { nodeAffinity: required } }), [node("a")])).toBe(
      `0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity].${NO_HELP(1)}`,
    );
  });

  it("keeps near the pods it wants, the first of a group wherever it likes", () => {
    const term = { topologyKey: "zone", labelSelector: { matchLabels: { app: "db" } } };
    const required = { requiredDuringSchedulingIgnoredDuringExecution: [term] };
    const client = pod({ affinity: { podAffinity: required } }, { app: "web" });
    const zones = [
      node("a", { labels: { zone: "1" } }),
      node("b", { labels: { zone: "2" }, pods: [pod({}, { app: "db" })] }),
    ];
    expect(plan(client, zones)).toEqual(bound("b"));
    expect(why(client, [node("a", { labels: { zone: "1" } })])).toContain("didn't match pod affinity rules");
    const itself = pod({ affinity: { podAffinity: required } }, { app: "db" });
    expect(plan(itself, [node("a", { labels: { zone: "1" } })])).toEqual(bound("a"));
  });

  it("keeps away from the pods it shuns, and from those that shun it", () => {
    const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "db" } } };
    const podAntiAffinity = { requiredDuringSchedulingIgnoredDuringExecution: [term] };
    const shy = pod({ affinity: { podAntiAffinity } }, { app: "db" });
    const full = node("a", { pods: [shy] });
    expect(plan(shy, [full, node("b")])).toEqual(bound("b"));
    expect(why(shy, [full])).toContain("didn't match pod anti-affinity rules");
    expect(why(pod({}, { app: "db" }), [full])).toContain("existing pods anti-affinity rules");
    const elsewhere: Pod = { ...shy, metadata: { ...shy.metadata, namespace: "other" } };
    expect(plan(elsewhere, [full])).toEqual(bound("a"));
  });

  it("is spread over zones within maxSkew, however many pods there are", () => {
    const topologySpreadConstraints = [
      {
        maxSkew: 1,
        topologyKey: "zone",
        whenUnsatisfiable: "DoNotSchedule" as const,
        labelSelector: { matchLabels: { app: "web" } },
      },
    ];
    const one = pod({ topologySpreadConstraints }, { app: "web" });
    fc.assert(
      fc.property(fc.array(fc.constantFrom("1", "2", "3"), { minLength: 1, maxLength: 6 }), (zones) => {
        const views = zones.map((zone, at) => node(`n${at}`, { labels: { zone } }));
        for (let placed = 0; placed < 12; placed++) {
          const made = plan(one, views);
          if (made.act === "bind") views.find((view) => view.name === made.node)?.add(one);
        }
        const counts = new Map<string, number>();
        for (const view of views)
          counts.set(
            view.labelOf("zone") ?? "",
            (counts.get(view.labelOf("zone") ?? "") ?? 0) + view.pods.length,
          );
        expect(Math.max(...counts.values()) - Math.min(...counts.values())).toBeLessThanOrEqual(1);
      }),
    );
    expect(why(one, [node("a")])).toContain("(missing required label)");
  });

  it("ignores spread constraints whose key no node has, and prefers nodes that have it", () => {
    const topologySpreadConstraints = ["zone", "kubernetes.io/hostname"].map((topologyKey) => ({
      maxSkew: 1,
      topologyKey,
      whenUnsatisfiable: "ScheduleAnyway" as const,
      labelSelector: { matchLabels: { app: "web" } },
    }));
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "r1", controller: true };
    const owned = (spec: NonNullable<Pod["spec"]>): Pod => {
      const one = pod(spec, { app: "web" });
      return { ...one, metadata: { ...one.metadata, ownerReferences: [owner] } };
    };
    const spread = owned({ containers: [], topologySpreadConstraints });
    // What else it has decides: here free room.
    const unlabelled = [node("a", { pods: [spread] }), node("b", { pods: [pod(), pod(), pod()] })];
    expect(plan(spread, unlabelled)).toEqual(bound("a"));
    expect(plan(owned({ containers: [] }), unlabelled)).toEqual(bound("b"));
    const zoned = node("z", { labels: { zone: "1" }, pods: [spread, spread] });
    expect(plan(spread, [node("a"), zoned])).toEqual(bound("z"));
  });

  it("gets its own node if replicas prefer that, also after a rollout, without zones", () => {
    const apart = ["kubernetes.io/hostname", "zone"].map((topologyKey, at) => ({
      weight: at === 0 ? 100 : 50,
      podAffinityTerm: { topologyKey, labelSelector: { matchLabels: { app: "web" } } },
    }));
    const preferred = { preferredDuringSchedulingIgnoredDuringExecution: apart };
    const copy = (uid: string): Pod => {
      const one = pod({ affinity: { podAntiAffinity: preferred } }, { app: "web" });
      const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: uid, uid, controller: true };
      return { ...one, metadata: { ...one.metadata, ownerReferences: [owner] } };
    };
    const views = (a: readonly Pod[], b: readonly Pod[]) => [
      // Free room alone would have all of them on the second one.
      node("a", { pods: [pod(), ...a] }),
      node("b", { pods: [...b] }),
    ];
    expect(plan(copy("old"), views([], [copy("old")]))).toEqual(bound("a"));
    expect(plan(copy("old"), views([copy("old")], []))).toEqual(bound("b"));
    expect(plan(copy("new"), views([copy("new")], [copy("old")]))).toEqual(bound("b"));
    expect(plan(copy("new"), views([copy("old")], [copy("new")]))).toEqual(bound("a"));
  });

  it("avoids a node that would rather not have it, and goes there when there is no other", () => {
    const shy = node("a", { taints: [{ key: "busy", effect: "PreferNoSchedule" }] });
    expect(plan(pod(), [shy, node("b", { pods: [pod(), pod()] })])).toEqual(bound("b"));
    expect(plan(pod(), [shy])).toEqual(bound("a"));
  });

  it("is spread evenly, whatever the number of nodes and pods", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 0, max: 40 }), (nodes, pods) => {
        const views = Array.from({ length: nodes }, (_, at) => node(`n${at}`));
        for (let placed = 0; placed < pods; placed++) {
          const own = pod({}, { app: "web" });
          const made = plan(own, views);
          if (made.act === "bind") views.find((view) => view.name === made.node)?.add(own);
        }
        const counts = views.map((view) => view.pods.length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe("a toleration", () => {
  const taint: Taint = { key: "dedicated", value: "db", effect: "NoSchedule" };
  it.each<[Toleration, boolean]>([
    [{ key: "dedicated", value: "db" }, true],
    [{ key: "dedicated", operator: "Equal", value: "db", effect: "NoSchedule" }, true],
    [{ key: "dedicated", operator: "Exists" }, true],
    [{ operator: "Exists" }, true],
    [{ key: "dedicated", value: "web" }, false],
    [{ key: "dedicated", value: "db", effect: "NoExecute" }, false],
    [{ key: "other", operator: "Exists" }, false],
  ])("%j", (toleration, expected) => {
    expect(tolerates(pod({ tolerations: [toleration] }), taint)).toBe(expected);
  });
});
