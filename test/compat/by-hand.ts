import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { MEMBER_ACCESS, type ProgramAccess } from "@fairlead/fleet/authz/programs.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { WHOLE_MEMBER } from "@fairlead/fleet/member/roles.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { configAs } from "../support/access.ts";
import {
  aborted,
  connectProgram,
  ensureNamespace,
  Restartable,
  startCluster,
  type TestCluster,
  testDeps,
} from "../support/fleet.ts";
import { enroll } from "./original-hub.ts";
import { OriginalMember } from "./original-member.ts";

const AGENT = { name: "agent-of-east", cluster: [], system: [] };

export interface HandMade extends AsyncDisposable {
  readonly hub: TestCluster;
  readonly east: TestCluster;
  readonly west: OriginalMember;
}

/**
 * A hub whose administrator made mailboxes and rights by hand, and no MemberCluster. East runs our agent, under the original's names; west an
 * original one. `rights` are those of the hub's manager.
 */
export async function startHandMade(
  rights: ProgramAccess,
  { isBesideOthers = false }: { readonly isBesideOthers?: boolean } = {},
): Promise<HandMade> {
  await using stack = new AsyncDisposableStack();
  const run = (program: (stopping: AbortSignal) => Promise<void>): void =>
    stack.use(new Restartable(program)).start();
  const hub = stack.use(await startCluster("hub", [rights, AGENT]));
  const east = stack.use(await startCluster("east", [MEMBER_ACCESS]));
  const signal = AbortSignal.timeout(20_000);
  const by = { fieldManager: "test" };
  await installCrds(hub.client, { crds: HUB_CRDS, ...by }, testDeps("test"), signal);
  await installCrds(east.client, { crds: MEMBER_CRDS, ...by }, testDeps("test"), signal);
  await enroll(hub.client, "east", `test:${AGENT.name}`);
  await hub.client.delete(INTERNAL_MEMBER_CLUSTERS, objectKey("fleet-member-east", "east"));
  await hub.client.create(NAMESPACES, { metadata: { name: "fleet-member-west" } });
  // The original's manager cannot make it.
  await ensureNamespace(hub.client, "work");
  run(async (stopping) => {
    await using client = connectProgram(configAs(rights, hub.config), testDeps("hub"));
    const options = { areMembersByNamespace: true, isBesideOthers };
    await using _hub = await startHub(client, options, testDeps("hub"), stopping);
    await aborted(stopping);
  });
  run(async (stopping) => {
    const deps = testDeps("east");
    const part = { ...WHOLE_MEMBER, isFleetOnly: true };
    await using local = connectProgram(configAs(MEMBER_ACCESS, east.config), deps);
    await using toHub = connectProgram(configAs(AGENT, hub.config), deps);
    await using _member = await startMember(
      { cluster: "east", local, hub: toHub, deps, part, probe: () => Promise.resolve("connected") },
      stopping,
    );
    await aborted(stopping);
  });
  const west = new OriginalMember(hub.client, "west");
  run((stopping) => west.run(stopping));
  const running = stack.move();
  return { hub, east, west, [Symbol.asyncDispose]: () => running.disposeAsync() };
}
