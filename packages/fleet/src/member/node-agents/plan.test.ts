import { describe, expect, it } from "vitest";
import type { DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { nodeDaemonSet, type WantedAgents } from "#domain/node-daemon-set.ts";
import { type AgentsView, describeAgents, planAgents } from "./plan.ts";

const REPOSITORY = "registry.example:5000/fairlead";
const OLD = { image: `${REPOSITORY}:0.1.0`, isRemoving: false, exposesMetrics: false };
const NEW = { image: `${REPOSITORY}:0.2.0`, isRemoving: false, exposesMetrics: false };
const REMOVAL = { image: `${REPOSITORY}:0.1.0`, isRemoving: true };

/** As the cluster's controller reports it when so many of three nodes are updated. */
function daemonSet(wanted: WantedAgents, ready = 3): DaemonSet {
  const made = nodeDaemonSet(wanted) as DaemonSet;
  return {
    ...made,
    metadata: { ...made.metadata, generation: 2 },
    status: {
      observedGeneration: 2,
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      updatedNumberScheduled: ready,
      numberMisscheduled: 0,
      numberReady: 3,
      numberAvailable: 3,
    },
  };
}

function view(of: Partial<AgentsView>): AgentsView {
  const install = { repository: REPOSITORY, exposesMetrics: false };
  return { isInNetwork: true, version: "0.2.0", daemonSets: [], ...install, ...of };
}

const ofHelm: DaemonSet = {
  ...daemonSet(OLD),
  metadata: {
    namespace: "fleet-system",
    name: "site-fairlead-node",
    labels: { "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "site" },
  },
};

describe("the node agents of a member", () => {
  it.each<[string, Partial<AgentsView>, unknown]>([
    ["are installed in the version that the profile names", {}, { step: "apply", wanted: NEW }],
    [
      "serve metrics to others where the member permits it",
      { exposesMetrics: true },
      { step: "apply", wanted: { ...NEW, exposesMetrics: true } },
    ],
    ["are upgraded to it", { daemonSets: [daemonSet(OLD)] }, { step: "apply", wanted: NEW }],
    [
      "stay as they are if it names none",
      { version: undefined, daemonSets: [daemonSet(OLD)] },
      { step: "apply", wanted: OLD },
    ],
    ["are not installed if it names none", { version: undefined }, { step: "nothing" }],
    ["are not installed outside of networks", { isInNetwork: false }, { step: "nothing" }],
    [
      "remove their part of a network that was left",
      { isInNetwork: false, daemonSets: [daemonSet(OLD)] },
      { step: "apply", wanted: REMOVAL },
    ],
    [
      "stay until every node has removed its part",
      { isInNetwork: false, daemonSets: [daemonSet(REMOVAL, 2)] },
      { step: "apply", wanted: REMOVAL },
    ],
    ["are deleted then", { isInNetwork: false, daemonSets: [daemonSet(REMOVAL)] }, { step: "delete" }],
    [
      "serve again if the network is back",
      { daemonSets: [daemonSet(REMOVAL, 2)] },
      { step: "apply", wanted: NEW },
    ],
    [
      "of Helm are left alone when the network was left",
      { isInNetwork: false, daemonSets: [ofHelm] },
      { step: "nothing" },
    ],
  ])("%s", (_, of, expected) => {
    expect(planAgents(view(of))).toEqual(expected);
  });

  it("are not touched if others installed them, and these are named", () => {
    expect(planAgents(view({ daemonSets: [ofHelm] }))).toEqual({
      step: "nothing",
      condition: {
        type: "fairlead.dev/NodeAgentsInstalled",
        status: "False",
        reason: "InstalledOtherwise",
        message:
          "DaemonSet fleet-system/site-fairlead-node of Helm release site runs registry.example:5000/fairlead:0.1.0: 0.2.0 is not installed in addition, and it is not changed; delete it, or leave spec.version of the profile out",
      },
    });
    const ofUser = { ...daemonSet(OLD), metadata: { namespace: "fleet-system", name: "fairlead-node" } };
    expect(planAgents(view({ daemonSets: [ofUser] }))).toMatchObject({
      step: "nothing",
      condition: { message: expect.stringContaining("fleet-system/fairlead-node of a user") as string },
    });
  });

  it.each([
    "latest",
    "0.2",
    "0.2.0/../evil",
    "0.2.0@sha256:0",
    "v0.2.0",
    "0.2.0 ",
    "",
    "0.2.0-" + "a".repeat(40),
  ])("are not installed in a version %j, whatever the hub says", (version) => {
    expect(planAgents(view({ version }))).toMatchObject({
      step: "nothing",
      condition: { status: "False", reason: "InvalidVersion" },
    });
  });

  it.each(["0.2.0", "10.20.30", "1.0.0-rc.1"])("may have the version %s", (version) => {
    expect(planAgents(view({ version }))).toMatchObject({ wanted: { image: `${REPOSITORY}:${version}` } });
  });
});

function pod(nodeName: string, waiting: { reason: string; message?: string }): Pod {
  return {
    metadata: { name: `fairlead-node-${nodeName}`, namespace: "fleet-system" },
    spec: { nodeName, containers: [] },
    status: {
      phase: "Pending",
      containerStatuses: [
        { name: "node", ready: false, restartCount: 0, image: "", imageID: "", state: { waiting } },
      ],
    },
  };
}

describe("the report of the node agents", () => {
  it("says which version is on how many nodes", () => {
    expect(describeAgents(daemonSet(NEW), NEW, [])).toMatchObject({
      status: "True",
      reason: "Installed",
      message: "0.2.0 on 3 nodes",
    });
  });

  it.each<[string, DaemonSet | undefined, string]>([
    ["before there is a DaemonSet", undefined, "installing 0.2.0: the DaemonSet is being written"],
    ["before the DaemonSet is changed", daemonSet(OLD), "installing 0.2.0: the DaemonSet is being written"],
    ["while nodes are updated", daemonSet(NEW, 1), "installing 0.2.0: 1 of 3 nodes are updated"],
  ])("says how far it is %s", (_, current, message) => {
    expect(describeAgents(current, NEW, [])).toMatchObject({
      status: "False",
      reason: "Installing",
      message,
    });
  });

  it("says when no pods can be created", () => {
    const current = daemonSet(NEW);
    const status = {
      ...current.status,
      currentNumberScheduled: 0,
      numberAvailable: 0,
    } as DaemonSet["status"];
    const { message } = describeAgents({ ...current, ...(status === undefined ? {} : { status }) }, NEW, []);
    expect(message).toContain("3 of 3 nodes have no pod of it");
    expect(message).toContain("may not permit privileged pods");
  });

  it("names the nodes whose pods do not run, with the reason, and not those that start", () => {
    const pods = [
      pod("node-1", { reason: "ContainerCreating" }),
      pod("node-2", { reason: "ErrImagePull", message: "manifest unknown" }),
    ];
    expect(describeAgents(daemonSet(NEW, 1), NEW, pods)).toMatchObject({
      status: "False",
      reason: "NodesNotReady",
      message: "installing 0.2.0: 1 of 3 nodes are updated; node-2: ErrImagePull: manifest unknown",
    });
  });

  it("is bounded, however many nodes and texts there are", () => {
    const pods = Array.from({ length: 1000 }, (_, at) =>
      pod(`node-${at}`, { reason: "ErrImagePull", message: "x".repeat(5000) }),
    );
    expect(describeAgents(daemonSet(NEW, 1), NEW, pods).message.length).toBeLessThanOrEqual(2000);
  });

  it("says how far the removal is", () => {
    expect(describeAgents(daemonSet(REMOVAL, 2), REMOVAL, [])).toMatchObject({
      reason: "Removing",
      message: "removing the network from 3 nodes: 2 of 3 nodes are updated",
    });
  });
});
