import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { accessManifests } from "@fairlead/fleet/authz/manifests.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ValidatingAdmissionPolicy } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  ROLE_BINDINGS,
  ROLES,
  type Subject,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { planNamespace, planRole, planRoleBinding } from "@fairlead/fleet/hub/membership/plan.ts";
import { installPolicies, installPolicy } from "@fairlead/fleet/authz/policies/install.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { type ClusterConfig, fixedCredentials } from "@fairlead/kube/config/config.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import { issueClientCertificate } from "@fairlead/base/pki/issue.ts";
import { realAssets, startRealServer } from "../../packages/apiserver/test/real-server.ts";
import { testDeps } from "../support/fleet.ts";

/** A hub's API server with the admission policies of mailboxes and without controllers: all rejections are its own. */

export interface GuardedHub extends AsyncDisposable {
  readonly admin: KubeClient;
  /** A client with a certificate for `user` in `groups`. */
  as(user: string, groups?: readonly string[]): Promise<KubeClient>;
}

const MEMBERS = ["a", "b"] as const;
export const HUB_USER = "test:hub";
/** May write everywhere by RBAC, as a careless administrator would have it. */
export const CARELESS_USER = "test:careless";
/** The user name of a legacy agent, which does not contain the member's name. */
export const FOREIGN_USER = "0bd3-old-agent-of-b";

export const hasRealServer = realAssets() !== undefined;

export async function startGuardedHub(kind: "embedded" | "real"): Promise<GuardedHub> {
  await using stack = new AsyncDisposableStack();
  const { config, pkiDir } = kind === "real" ? await startReal(stack) : await startEmbedded(stack);
  const admin = stack.use(connect(config, testDeps("admin")));
  const signal = AbortSignal.timeout(60_000);
  await installCrds(admin, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("admin"), signal);
  await installPolicies(admin, silentLogger, signal);
  await prepare(admin);
  const { ca } = await ensureClusterPki(pkiDir);
  const held = stack.move();
  const clients = new Map<string, KubeClient>();
  return {
    admin,
    async as(user, groups = []) {
      const who = [user, ...groups].join(" ");
      const known = clients.get(who);
      if (known !== undefined) return known;
      const { cert, key } = await issueClientCertificate(ca, { commonName: user, organizations: groups });
      const client = held.use(
        connect({ ...config, credentials: fixedCredentials({ certificate: cert, key }) }, testDeps(user)),
      );
      clients.set(who, client);
      return client;
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

async function startReal(
  stack: AsyncDisposableStack,
): Promise<{ readonly config: ClusterConfig; readonly pkiDir: string }> {
  const server = stack.use(await startRealServer());
  return { config: await loadKubeconfig(server.kubeconfig), pkiDir: join(server.dir, "pki") };
}

async function startEmbedded(
  stack: AsyncDisposableStack,
): Promise<{ readonly config: ClusterConfig; readonly pkiDir: string }> {
  const dataDir = await mkdtemp(join(tmpdir(), "fairlead-test-guard-"));
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  const server = stack.use(await startApiServer({ dataDir, journal: "none" }));
  return { config: await loadKubeconfig(server.kubeconfig), pkiDir: join(dataDir, "pki") };
}

function userNamed(name: string): Subject {
  return { kind: "User", apiGroup: "rbac.authorization.k8s.io", name };
}

/** Mailboxes as the hub makes them, and people. */
async function prepare(admin: KubeClient): Promise<void> {
  const by = { fieldManager: "test" };
  for (const name of ["fleet-system", "fleet-view-default"])
    await admin.apply(NAMESPACES, { metadata: { name } }, by);
  for (const { of, object } of accessManifests(HUB_ACCESS, userNamed(HUB_USER)))
    await admin.apply(of, object, by);
  for (const cluster of MEMBERS) {
    const identity = {
      kind: "User" as const,
      name: cluster === "b" ? FOREIGN_USER : `fleet:member:${cluster}`,
    };
    const member = await admin.create(MEMBER_CLUSTERS, { metadata: { name: cluster }, spec: { identity } });
    await admin.apply(NAMESPACES, planNamespace(member), by);
    await admin.apply(ROLES, planRole(member), by);
    await admin.apply(ROLE_BINDINGS, planRoleBinding(member), by);
  }
  const name = "careless";
  const groups = [
    "networking.fleet.azure.com",
    "fairlead.dev",
    "cluster.kubernetes-fleet.io",
    "coordination.k8s.io",
  ];
  const verbs = ["get", "list", "create", "update", "patch", "delete"];
  // Everything that is served in these groups, but not the verb by which mailboxes are administered.
  await admin.apply(
    CLUSTER_ROLES,
    { metadata: { name }, rules: [{ apiGroups: groups, resources: ["*"], verbs }] },
    by,
  );
  const roleRef = { apiGroup: "rbac.authorization.k8s.io" as const, kind: "ClusterRole" as const, name };
  await admin.apply(
    CLUSTER_ROLE_BINDINGS,
    { metadata: { name }, roleRef, subjects: [userNamed(CARELESS_USER)] },
    by,
  );
  await untilEnforced(admin);
}

/** Refuses a name that no test uses. */
const LAST: ValidatingAdmissionPolicy = {
  metadata: { name: "test-last" },
  spec: {
    failurePolicy: "Fail",
    matchConstraints: {
      resourceRules: [
        { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["namespaces"] },
      ],
    },
    validations: [{ expression: "object.metadata.name != 'test-last'", message: "all policies are applied" }],
  },
};

/** A server applies stored policies after a moment, and those that were stored last not before the others. */
async function untilEnforced(admin: KubeClient): Promise<void> {
  const deadline = AbortSignal.timeout(60_000);
  await installPolicy(admin, LAST, deadline);
  for (;;) {
    deadline.throwIfAborted();
    const isRefused = await admin.create(NAMESPACES, { metadata: LAST.metadata }, { dryRun: true }).then(
      () => false,
      () => true,
    );
    if (isRefused) return;
    await delay(50);
  }
}
