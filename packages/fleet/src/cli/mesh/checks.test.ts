import { describe, expect, it } from "vitest";
import type { InternalMemberCluster, MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_UID_ANNOTATION,
  NODE_RANGES,
  POD_RANGES,
  VERSION_ANNOTATION,
} from "#api/fairlead.dev/names.ts";
import type { AppliedMesh, ClusterMeshProfile, NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { CNI_PROPERTY, KUBERNETES_PROPERTY, OTHER_MESH_PROPERTY } from "#domain/cluster-facts.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { checkMesh, type MeshFinding } from "./checks.ts";
import type { MeshSnapshot } from "./read.ts";

interface Drafted {
  readonly pods?: string;
  readonly nodes?: string;
  readonly uid?: string;
  readonly version?: string;
  readonly healthy?: "True" | "False";
  readonly properties?: Readonly<Record<string, string>>;
  readonly isSeen?: boolean;
  /** Of its clock. Unit: seconds. */
  readonly ahead?: number;
  /** Its Lease, by its own clock: how long ago by the hub's. Unit: seconds. */
  readonly renewedBefore?: number;
  /** Since the fields of its status have their managers: a server renews that time at its will. Unit: seconds. */
  readonly managedSince?: number;
}

const NOW = "2026-01-01T00:00:00Z";
const observed = (value: string) => ({ value, observationTime: NOW });

function member(name: string, draft: Drafted): MemberCluster {
  const { pods, nodes, uid, healthy = "True", properties = {} } = draft;
  const condition = { reason: "x", message: "no renewal", lastTransitionTime: NOW };
  const found = Object.entries({ ...properties, ...(nodes === undefined ? {} : { [NODE_RANGES]: nodes }) });
  return {
    metadata: {
      name,
      annotations: {
        ...(pods === undefined ? {} : { [POD_RANGES]: pods }),
        ...(uid === undefined ? {} : { [CLUSTER_UID_ANNOTATION]: uid }),
      },
    },
    spec: { identity: { kind: "User", name } },
    status: {
      conditions: [
        { type: "Joined", status: "True", ...condition },
        { type: "Healthy", status: healthy, ...condition },
      ],
      properties: Object.fromEntries(found.map(([key, value]) => [key, observed(value)])),
    },
  };
}

function heartbeat(name: string, { ahead = 0, managedSince = 0 }: Drafted): InternalMemberCluster {
  const at = new Date(Date.parse(NOW) + ahead * 1000).toISOString();
  return {
    metadata: {
      namespace: `fleet-member-${name}`,
      name,
      managedFields: [
        {
          manager: "m",
          operation: "Update",
          apiVersion: "v1",
          subresource: "status",
          time: new Date(Date.parse(NOW) - managedSince * 1000).toISOString(),
        },
      ],
    },
    spec: { state: "Join" },
    status: { agentStatus: [{ type: "x", lastReceivedHeartbeat: at }] },
  };
}

function check(
  drafts: Readonly<Record<string, Drafted>>,
  { mode = "flat", ...more }: Partial<AppliedMesh> & { readonly mode?: NetworkMode } = {},
): readonly MeshFinding[] {
  const all = Object.entries(drafts);
  const members = all.map(([name, draft]) => member(name, draft));
  const leases = all.map(([name, { version = "0.2.0", renewedBefore }]): Lease => {
    const metadata = {
      namespace: `fleet-member-${name}`,
      name,
      annotations: { [VERSION_ANNOTATION]: version },
    };
    return renewedBefore === undefined
      ? { metadata }
      : { metadata, spec: { renewTime: new Date(Date.parse(NOW) - renewedBefore * 1000).toISOString() } };
  });
  const received = all.filter(([, it]) => it.isSeen !== false).map(([name]) => name);
  const snapshot: MeshSnapshot = {
    members,
    leases,
    reports: received.map((name) => ({
      metadata: { namespace: `fleet-member-${name}`, name },
      spec: { namespaces: [] },
    })),
    internalMembers: all.map(([name, draft]) => heartbeat(name, draft)),
    exports: [],
    sliceExports: [],
    serviceImports: [],
    importedServices: [],
    profiles: [],
    gateways: [],
    fleet: { profiles: [], members, namespaces: new Map(), exports: [], views: new Set() },
  };
  const network = { mode };
  const profile: ClusterMeshProfile = {
    metadata: { name: "p", uid: "1" },
    spec: { memberSelector: {}, apply: "Manual", network },
  };
  const target = { network, members: Object.keys(drafts), memberSelector: "", operation: "1", ...more };
  return checkMesh(profile, target, snapshot, { version: "0.2.0", nowMs: Date.parse(NOW) });
}
const shown = (all: readonly MeshFinding[]): string[] =>
  all.map((it) => `${it.status} ${it.check}: ${it.message}`);

const A = { pods: "10.1.0.0/16" };
const B = { pods: "10.2.0.0/16" };

describe("the checks before a profile is applied", () => {
  it("find nothing in clusters that go together", () => {
    expect(shown(check({ a: A, b: B }))).toEqual([]);
  });

  it("find no clock ahead because the manager of a status is old, as on servers that do not renew its time", () => {
    expect(shown(check({ a: { ...A, managedSince: 352 } }))).toEqual([]);
  });

  it.each<[string, readonly MeshFinding[], RegExp]>([
    [
      "an agent that does not answer",
      check({ a: { ...A, healthy: "False" } }),
      /^failed health: the agent of a/,
    ],
    [
      "an agent that reports nothing",
      check({ a: { ...A, isSeen: false } }),
      /^failed health: .*fairlead join a/,
    ],
    [
      "one cluster under two names",
      check({ a: { ...A, uid: "u" }, b: { ...B, uid: "u" } }),
      /^failed identity: a, b are the same cluster.*fairlead leave/,
    ],
    ["pods with equal addresses", check({ a: A, b: A }), /^failed cidrs: pod addresses of a .*parallel/],
    [
      "pods with addresses of nodes",
      check({ a: A, b: { ...B, nodes: "10.1.4.0/24" } }),
      /^failed cidrs: pod addresses of a .* and node addresses of b/,
    ],
    ["unknown addresses", check({ a: A, b: {} }), /^warning cidrs: the pod addresses of b are not known/],
    [
      "fleet addresses that a member uses",
      check({ a: { pods: "10.113.0.0/16" } }, { mode: "parallel" }),
      /^failed cidrs: a uses 10.113.0.0\/16, which overlaps the fleet addresses 10.112.0.0\/12/,
    ],
    [
      "versions of Fairlead that are too far apart",
      check({ a: A, b: { ...B, version: "0.4.0" } }),
      /^failed versions: Fairlead: a has 0.2.0 and b 0.4.0/,
    ],
    [
      "a version to install that is too far from the members'",
      check({ a: A }, { version: "0.5.0" }),
      /^failed versions: Fairlead: a has 0.2.0 and spec.version 0.5.0/,
    ],
    [
      "versions of Kubernetes that are too far apart",
      check({
        a: { ...A, properties: { [KUBERNETES_PROPERTY]: "v1.30.2" } },
        b: { ...B, properties: { [KUBERNETES_PROPERTY]: "v1.34.0" } },
      }),
      /^warning versions: Kubernetes: a has v1.30.2 and b v1.34.0/,
    ],
    [
      "a clock that is ahead",
      check({ a: { ...A, ahead: 90 } }),
      /^warning clock: the clock of a is 90 s ahead.*NTP/,
    ],
    [
      "a clock that is ahead by the renewal of its Lease alone",
      check({ a: { ...A, ahead: -60, renewedBefore: -40 } }),
      /^warning clock: the clock of a is 40 s ahead.*NTP/,
    ],
    [
      "another mesh",
      check({ a: { ...A, properties: { [OTHER_MESH_PROPERTY]: "Submariner" } } }),
      /^failed cni: a belongs to another mesh \(Submariner\).*remove it/,
    ],
    [
      "a plugin that may hide addresses",
      check({ a: { ...A, properties: { [CNI_PROPERTY]: "Calico" } } }),
      /^warning cni: the CNI of a is Calico.*masquerading/,
    ],
  ])("find %s, and what to do", (_what, found, message) => {
    expect(shown(found)).toEqual([expect.stringMatching(message)]);
  });

  it("accept members with equal addresses in a parallel network", () => {
    expect(shown(check({ a: A, b: A }, { mode: "parallel" }))).toEqual([]);
  });
});
