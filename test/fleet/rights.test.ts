import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { VALIDATING_ADMISSION_POLICY_BINDINGS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { CERTIFICATE_SIGNING_REQUESTS, CLIENT_SIGNER } from "@fairlead/kube/api/certificates/v1/types.ts";
import { JOINS_LABEL } from "@fairlead/fleet/api/fairlead.dev/identity.ts";
import { type Secret, SECRETS, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { type Access, rulesOf } from "@fairlead/fleet/authz/access.ts";
import { MAILBOX, RENEW_TOKEN, VIEW } from "@fairlead/fleet/authz/mailbox.ts";
import {
  ASK_FOR_CERTIFICATES,
  DNS_ACCESS,
  HUB_ACCESS,
  MEMBER_ACCESS,
  type ProgramAccess,
} from "@fairlead/fleet/authz/programs.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { HUB_SECRET, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { ADMINISTER } from "@fairlead/fleet/authz/policies/cel.ts";
import { MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";
import { HUB_CORE_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { awaitCrds, installCrds } from "@fairlead/kube/definitions/crds.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  FLEET_SYSTEM_NAMESPACE,
  mailboxOf,
  viewNamespaceOf,
} from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { FLEET_SERVICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { CLUSTER_ROLES, type PolicyRule, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { createClusterSetProvider } from "@fairlead/fleet/hub/traffic-manager/providers/clusterset.ts";
import { createClusterSetSync } from "@fairlead/fleet/dns/sync.ts";
import { createTrafficSync } from "@fairlead/fleet/dns/traffic-sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { runAsLeader } from "@fairlead/kube/election/leader.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type AskedFor, configAs, grant, PROGRAM_AGENT, userOf } from "../support/access.ts";
import { startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type Held, type Right, rightsOf, superfluous } from "./rights.ts";
import {
  actAsOtherAgent,
  beRefused,
  connectClusters,
  knowPods,
  goOn,
  leaveBoth,
  manageTraffic,
  upgradeCluster,
  useServices,
} from "./rights-scenario.ts";

let fleet: TestFleet;
let isOlder = false;
let offsetMs = 0;
let blocking: AskedFor[] = [];
/** Longest that a busy machine may take. */
const LIMIT = { timeout: 20_000 };
const never = new AbortController().signal;

beforeAll(async () => {
  fleet = await startFleet({
    members: ["a", "b", "c"],
    join: ["a", "b"],
    byToken: ["a"],
    trafficManager: (client, deps) => ({
      provider: createClusterSetProvider(client, { zone: "tm.clusterset.local" }, deps),
      ttlSeconds: 5,
    }),
    wrap: (client) => disguised(client),
  });
  await answerNames();
  await useServices(fleet);
  blocking = await blockingOwners();
  await actAsOtherAgent(fleet);
  await manageTraffic(fleet);
  await connectClusters(fleet);
  await knowPods(fleet);
  await upgradeCluster(fleet);
  for (const [program, config, crds] of [
    [HUB_ACCESS, fleet.hub.config, HUB_CORE_CRDS],
    [MEMBER_ACCESS, configOf("a"), MEMBER_CRDS],
  ] as const) {
    await elect(program, config);
    await watchDefinitions(program, config, crds);
  }
  // Servers before Kubernetes 1.34 stream no first state: informers list.
  isOlder = true;
  await renew();
  await goOn(fleet, "older");
  await connectClusters(fleet);
  await knowPods(fleet);
  await answerNames();
  isOlder = false;
  await restart();
  await goOn(fleet, "renewed");
  for (const it of MAILBOX_POLICY_BINDINGS)
    await fleet.client("hub").delete(VALIDATING_ADMISSION_POLICY_BINDINGS, keyOf(it));
  await beRefused(fleet);
  await leaveBoth(fleet);
}, 150_000);
// Fails when a program was refused anything.
afterAll(() => fleet[Symbol.asyncDispose]());

function configOf(name: string): ClusterConfig {
  const cluster = fleet.members.get(name);
  if (cluster === undefined) throw new Error(`no cluster ${name}`);
  return cluster.config;
}

/** Nearly all of the life of what the agents show to the hub is over, and of what clusters joined with. */
async function renew(): Promise<void> {
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET);
  // The hub's authority is followed from now on.
  const data = { "follow-ca": Buffer.from("true").toString("base64") };
  const before = await Promise.all(
    ["a", "b"].map((name) => fleet.client(name).mergePatch(SECRETS, key, { data })),
  );
  const stale = { namespace: FLEET_SYSTEM_NAMESPACE, name: "join-stale", labels: { [JOINS_LABEL]: "stale" } };
  await fleet.client("hub").create(SERVICE_ACCOUNTS, { metadata: stale });
  const { items } = await fleet.client("hub").list(CERTIFICATE_SIGNING_REQUESTS);
  const finished = new Set(items.map((it) => it.metadata.uid));
  offsetMs = 25 * 86_400_000;
  await restart();
  const isNew = (name: string) => (it: Secret) =>
    before.every(({ data: old }) => it.data?.[name] !== old?.[name]);
  await eventuallyOne(fleet.client("a"), SECRETS, key, isNew("token"));
  await eventuallyOne(fleet.client("b"), SECRETS, key, isNew("tls.crt"));
  await eventually(
    fleet.client("hub"),
    SERVICE_ACCOUNTS,
    (all) => !all.some((it) => it.metadata.name === "join-stale"),
  );
  // Finished long ago by then.
  await eventually(fleet.client("hub"), CERTIFICATE_SIGNING_REQUESTS, (all) =>
    all.every((it) => !finished.has(it.metadata.uid)),
  );
  offsetMs = 0;
  await restart();
}

async function restart(): Promise<void> {
  for (const it of [fleet.hubProgram, ...fleet.agents.values()]) {
    await it.stop();
    it.start();
  }
}

/** A client of a server that streams no first state, or whose clock shows another day, as things are when it is made. */
function disguised(client: KubeClient): KubeClient {
  const [streams, aheadMs] = [!isOlder, offsetMs];
  return {
    get: (of, key, options) => client.get(of, key, options),
    find: (of, key, options) => client.find(of, key, options),
    list: (of, options) => client.list(of, options),
    watch(of, options, signal) {
      if (options.sendInitialEvents === true && !streams)
        throw new FleetError("API_INVALID", "sendInitialEvents is forbidden for watch");
      return client.watch(of, options, signal);
    },
    create: (of, object, options) => client.create(of, object, options),
    update: (of, object, options) => client.update(of, object, options),
    mergePatch: (of, key, patch, options) => client.mergePatch(of, key, patch, options),
    jsonPatch: (of, key, patch, options) => client.jsonPatch(of, key, patch, options),
    apply: (of, object, options) => client.apply(of, object, options),
    delete: (of, key, options) => client.delete(of, key, options),
    onReachable: (listener) => client.onReachable(listener),
    get serverTime() {
      return { nowMs: testDeps("test").clock.now() + aheadMs, errorMs: 0 };
    },
    request: (method, path, body, options) => client.request(method, path, body, options),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

function connectAs(program: ProgramAccess, config: ClusterConfig): KubeClient {
  const client = connect(configAs(program, config), { ...testDeps("test"), userAgent: PROGRAM_AGENT });
  return disguised(client);
}

/** Every Lease of a program is free, acquired and released. */
async function elect(program: ProgramAccess, config: ClusterConfig): Promise<void> {
  await using client = connectAs(program, config);
  await ensureNamespace(client, FLEET_SYSTEM_NAMESPACE, never);
  const names = new Set<string>(program === HUB_ACCESS ? LEASES_OF.hub : Object.values(LEASES_OF).flat());
  const own = [...names].filter((it) => program !== MEMBER_ACCESS || it !== "fairlead-hub");
  for (const name of own) {
    const options = { namespace: FLEET_SYSTEM_NAMESPACE, name, identity: "me" };
    const lead = () =>
      runAsLeader({ client, options, deps: testDeps("leader") }, never, () => Promise.resolve());
    await lead();
    await lead();
  }
}

/** Definitions are watched where they cannot be read at once. */
async function watchDefinitions(
  program: ProgramAccess,
  config: ClusterConfig,
  crds: readonly CustomResourceDefinition[],
): Promise<void> {
  await using client = connectAs(program, config);
  client.list = () => Promise.reject(new FleetError("API_UNAVAILABLE", "the server is away"));
  await awaitCrds(client, { crds, fieldManager: "test", remedy: "" }, testDeps("test"), never);
}

/** DNS servers of a cluster whose kinds are installed after they began. */
async function answerNames(): Promise<void> {
  const client = fleet.client("c");
  for (const { metadata } of MEMBER_CRDS)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, objectKey(undefined, metadata.name));
  await eventually(client, CUSTOM_RESOURCE_DEFINITIONS, (all) => all.length === 0);
  await grant(client, [DNS_ACCESS]);
  await using dns = connectAs(DNS_ACCESS, configOf("c"));
  await using names = syncOf(dns, false);
  await using routes = syncOf(dns, true);
  const started = Promise.all([names.start(never), routes.start(never)]);
  const isWaiting = (it: AskedFor) =>
    it.user === userOf(DNS_ACCESS) && it.verb === (isOlder ? "list" : "watch");
  await vi.waitFor(() => {
    expect(fleet.members.get("c")?.asked.all().filter(isWaiting).length).toBeGreaterThan(1);
  }, LIMIT);
  await installCrds(client, { crds: MEMBER_CRDS, fieldManager: "test" }, testDeps("test"), never);
  await started;
}

function syncOf(client: KubeClient, isTraffic: boolean) {
  const deps = testDeps("dns");
  if (isTraffic) return createTrafficSync(client, { origin: "tm.clusterset.local.", negativeTtl: 5 }, deps);
  const zone = { origin: "clusterset.local.", ttl: 5 };
  return createClusterSetSync({ client, tree: new RecordTree(), zone }, deps);
}

/**
 * Owners whose deletion waits for what they own: where the admission plugin OwnerReferencesPermissionEnforcement is on,
 * a client that writes such a reference needs permission to update the owner's finalizers.
 */
async function blockingOwners(): Promise<AskedFor[]> {
  const client = fleet.client("b");
  const objects = [
    ...(await client.list(SERVICES)).items,
    ...(await client.list(FLEET_SERVICE_IMPORTS)).items,
    ...(await client.list(MCS_SERVICE_IMPORTS)).items,
  ];
  return objects.flatMap(({ metadata }) =>
    (metadata.ownerReferences ?? [])
      .filter((it) => it.blockOwnerDeletion === true)
      .map((it) => ({
        user: "",
        verb: "update",
        group: it.apiVersion.split("/")[0] ?? "",
        resource: `${it.kind.toLowerCase()}s/finalizers`,
        namespace: metadata.namespace,
        name: it.name,
        isAllowed: true,
      })),
  );
}

function everything(): readonly AskedFor[] {
  return [fleet.hub, ...fleet.members.values()].flatMap((it) => it.asked.all()).filter((it) => it.isAllowed);
}

function held(program: ProgramAccess): Held[] {
  return [
    { where: "everywhere", accesses: program.cluster, isIn: () => true },
    { where: "fleet-system", accesses: program.system, isIn: (it) => it === FLEET_SYSTEM_NAMESPACE },
  ];
}

const ofHub = (): AskedFor[] => everything().filter((it) => it.user === userOf(HUB_ACCESS));
/** Not seen in the audit log: policies ask it of the hub when it writes into a mailbox. */
const administering: AskedFor = {
  user: "",
  verb: ADMINISTER.verb,
  group: ADMINISTER.group,
  resource: ADMINISTER.plural,
  namespace: mailboxOf("a"),
  name: "",
  isAllowed: true,
};
/** Nor this: the server requires it of an approver of certificates. */
const approving: AskedFor = {
  ...administering,
  verb: "approve",
  group: "certificates.k8s.io",
  resource: "signers",
  namespace: undefined,
  name: CLIENT_SIGNER,
};
const granted = [...rulesOf([...MAILBOX, ...RENEW_TOKEN]), ...rulesOf(VIEW)];

describe("C8: over the life of a fleet, with every function of its programs", () => {
  it("the hub uses every permission that it is granted", () => {
    expect(superfluous(rightsOf(held(HUB_ACCESS)), [...ofHub(), administering, approving], granted)).toEqual(
      [],
    );
  });

  it("a member's program uses every permission that it is granted in its cluster", () => {
    const asked = everything().filter((it) => it.user === userOf(MEMBER_ACCESS));
    expect(superfluous(rightsOf(held(MEMBER_ACCESS)), [...asked, ...blocking])).toEqual([]);
  });

  it("the DNS server uses every permission that it is granted", () => {
    const asked = everything().filter((it) => it.user === userOf(DNS_ACCESS));
    expect(superfluous(rightsOf(held(DNS_ACCESS)), asked)).toEqual([]);
  });

  it("members use every permission in mailbox and view, and request nothing else from the hub", () => {
    const programs = new Set([HUB_ACCESS, MEMBER_ACCESS, DNS_ACCESS].map(userOf));
    const asked = fleet.hub.asked.all().filter((it) => it.isAllowed && !programs.has(it.user));
    const at = (where: string, accesses: readonly Access[], isIn: Held["isIn"]): Held => ({
      where,
      accesses,
      isIn,
    });
    const rights = rightsOf([
      at("mailbox", [...MAILBOX, ...RENEW_TOKEN], (it) => it === mailboxOf("a") || it === mailboxOf("b")),
      at("view", VIEW, (it) => it === VIEW_NAMESPACE || it === viewNamespaceOf("site")),
      at("cluster", ASK_FOR_CERTIFICATES, (it) => it === undefined),
    ]);
    // Works come from placements, which this fleet has none of.
    expect(superfluous(rights, asked).filter((it) => !it.includes(` ${WORKS.group} `))).toEqual([]);
    expect(asked.filter((it) => !rights.some((right) => right.allows(it)))).toEqual([]);
  });

  it.each([
    { program: HUB_ACCESS, cluster: "hub" },
    { program: MEMBER_ACCESS, cluster: "b" },
    { program: DNS_ACCESS, cluster: "c" },
  ])(
    "the server refuses $program.name one of these requests as soon as any permission is removed",
    async ({ program, cluster }) => {
      const client = fleet.client(cluster);
      const [everywhere = [], inSystem = []] = held(program).map((it) => rightsOf([it]));
      const asked = everything().filter((it) => it.user === userOf(program));
      const rights = [...everywhere, ...inSystem];
      const refused: string[] = [];
      const expected: string[] = [];
      for (const right of rights) {
        const request = asked.find(
          (it) => right.allows(it) && rights.filter((one) => one.allows(it)).length === 1,
        );
        // Some are held only to be granted, or are required by the server itself.
        if (request === undefined) continue;
        expected.push(right.text);
        const rest = (of: readonly Right[]) => of.filter((it) => it !== right).map((it) => it.source);
        await setRules(client, program, rest(everywhere), rest(inSystem));
        if (!(await isAllowed(client, request))) refused.push(right.text);
      }
      await grant(client, [program]);
      expect(refused).toEqual(expected);
      expect(expected.length).toBeGreaterThan(5);
      for (const it of asked) expect(await isAllowed(client, it)).toBe(true);
    },
  );
});

async function setRules(
  client: KubeClient,
  { name }: ProgramAccess,
  everywhere: readonly PolicyRule[],
  inSystem: readonly PolicyRule[],
): Promise<void> {
  const by = { fieldManager: "test" };
  await client.apply(CLUSTER_ROLES, { metadata: { name }, rules: [...everywhere] }, by);
  if (inSystem.length > 0)
    await client.apply(
      ROLES,
      { metadata: { name, namespace: FLEET_SYSTEM_NAMESPACE }, rules: [...inSystem] },
      by,
    );
}

/** The server's own decision on a request. */
async function isAllowed(client: KubeClient, asked: AskedFor): Promise<boolean> {
  const { user, verb, group, namespace, name } = asked;
  const [resource, subresource] = asked.resource.split("/");
  const review = await client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    spec: { user, resourceAttributes: { verb, group, resource, subresource, namespace, name } },
  });
  return (review as { status: { allowed: boolean } }).status.allowed;
}
