import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createHubInformers, currentMembers } from "./informers.ts";

const identity = { kind: "User", name: "x" } as const;
/** Keeps an object that is being deleted. */
const held = { finalizers: ["test/held"] };

let stop: AbortController;
beforeEach(() => void (stop = new AbortController()));
afterEach(() => stop.abort());

/** Which of a, b, c and d are members: "a" joined, "b" leaves, "c" has a mailbox and "d" one that is deleted. */
async function membersOf(areMembersByNamespace: boolean): Promise<string[]> {
  const client = new FakeKubeClient();
  client.seed(
    MEMBER_CLUSTERS,
    { metadata: { name: "a" }, spec: { identity } },
    { metadata: { name: "b", ...held }, spec: { identity } },
  );
  client.seed(
    NAMESPACES,
    { metadata: { name: "fleet-member-b" } },
    { metadata: { name: "fleet-member-c" } },
    { metadata: { name: "fleet-member-d", ...held } },
  );
  client.state.delete(MEMBER_CLUSTERS, "b" as never);
  client.state.delete(NAMESPACES, "fleet-member-d" as never);
  const informers = createHubInformers(client, { areMembersByNamespace }, systemDeps(silentLogger));
  await using _members = informers.members;
  await using _namespaces = informers.namespaces;
  for (const it of [informers.members, informers.namespaces]) {
    it.start(stop.signal);
    await it.synced(stop.signal);
  }
  const members = currentMembers(informers);
  return ["a", "b", "c", "d"].filter((it) => members.has(it));
}

describe("a member of the fleet", () => {
  it("has a MemberCluster that is not being deleted", async () => {
    expect(await membersOf(false)).toEqual(["a"]);
  });

  it("or only a mailbox, if the hub is configured with areMembersByNamespace", async () => {
    expect(await membersOf(true)).toEqual(["a", "c"]);
  });
});
