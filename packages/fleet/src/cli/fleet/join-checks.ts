import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  CLIENT_SIGNER,
  SIGNERS,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  EVENTS,
  NAMESPACES,
  PODS,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { POD_DISRUPTION_BUDGETS } from "@fairlead/kube/api/policy/v1/types.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  ROLE_BINDINGS,
  ROLES,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { checkPermissions } from "./checks/permissions.ts";
import type { AccessAttributes } from "@fairlead/kube/client/access-review.ts";
import { type Cidrs, judgeCidrs } from "./checks/cidrs.ts";
import { judgeClocks, readSkew } from "./checks/clock.ts";
import type { CheckName, Finding } from "./checks/finding.ts";
import { checkHub } from "./checks/hub.ts";
import { checkVersion } from "./checks/version.ts";
import type { JoinDeps, JoinOptions } from "./join-options.ts";
import type { Side } from "./steps.ts";

/** Checks both clusters before anything is changed. Does not write. */

export interface Checked {
  readonly options: JoinOptions;
  readonly deps: JoinDeps;
  readonly hub: Side;
  readonly member: Side;
  readonly members: readonly MemberCluster[];
  readonly cidrs: Cidrs;
}

const CHANGE = ["get", "create", "patch", "delete"];
const ADD = ["get", "create", "patch"];

function needed(
  verbs: readonly string[],
  of: AccessAttributes["of"],
  more: Omit<AccessAttributes, "verb" | "of"> = {},
): AccessAttributes[] {
  return verbs.map((verb) => ({ verb, of, ...more }));
}

function neededOnHub({ name, identity }: JoinOptions): readonly AccessAttributes[] {
  const namespace = FLEET_SYSTEM_NAMESPACE;
  const forCertificates = [
    ...needed(["get", "create", "delete"], SERVICE_ACCOUNTS, { namespace }),
    ...needed(["create"], SERVICE_ACCOUNTS, { subresource: "token", namespace }),
    ...needed(CHANGE, CLUSTER_ROLES),
    ...needed(CHANGE, CLUSTER_ROLE_BINDINGS),
  ];
  const toFindOut = [
    ...needed(["create", "list", "watch", "delete"], CERTIFICATE_SIGNING_REQUESTS),
    ...needed(["update"], CERTIFICATE_SIGNING_REQUESTS, { subresource: "approval" }),
    { verb: "approve", of: SIGNERS, name: CLIENT_SIGNER },
  ];
  return [
    ...needed(ADD, CUSTOM_RESOURCE_DEFINITIONS),
    ...needed([...ADD, "list", "watch"], NAMESPACES),
    ...needed([...CHANGE, "list", "watch"], MEMBER_CLUSTERS),
    ...needed(["get", "list", "watch"], LEASES, { namespace: FLEET_SYSTEM_NAMESPACE }),
    ...(identity === "token"
      ? needed(["create"], SERVICE_ACCOUNTS, { subresource: "token", namespace: mailboxOf(name) })
      : forCertificates),
    ...(identity === undefined ? toFindOut : []),
  ];
}

function neededOnMember({ install, probeImage }: JoinOptions): readonly AccessAttributes[] {
  const namespace = FLEET_SYSTEM_NAMESPACE;
  const toInstall = [
    ...needed(CHANGE, CLUSTER_ROLES),
    ...needed(CHANGE, CLUSTER_ROLE_BINDINGS),
    ...[ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS, SERVICES, DEPLOYMENTS].flatMap((of) =>
      needed(CHANGE, of, { namespace }),
    ),
    ...needed(CHANGE, POD_DISRUPTION_BUDGETS, { namespace }),
    // To watch them run, and to report why they do not.
    ...needed(["list", "watch"], DEPLOYMENTS, { namespace }),
    ...needed(["list"], EVENTS, { namespace }),
  ];
  return [
    ...needed(ADD, CUSTOM_RESOURCE_DEFINITIONS),
    ...needed(ADD, NAMESPACES),
    ...needed([...CHANGE, "list", "watch"], SECRETS, { namespace }),
    ...(install === undefined ? [] : toInstall),
    ...(install === undefined && probeImage === undefined
      ? []
      : [
          ...needed(["create", "list", "watch", "delete"], PODS, { namespace }),
          ...needed(["list", "watch"], SERVICE_ACCOUNTS, { namespace }),
        ]),
  ];
}

/**
 * Checks versions, permissions, addresses and clocks, and reports each finding.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` with every failed check.
 */
export async function checkBoth(checked: Checked, signal: AbortSignal): Promise<readonly Finding[]> {
  const { options, deps } = checked;
  const skipped = options.skipChecks ?? new Set<CheckName>();
  const findings: Finding[] = [];
  for (const { check, look } of looks(checked, signal)) {
    const found = skipped.has(check)
      ? [{ check, status: "skipped" as const, message: `${check}: skipped (--skip-check)` }]
      : await look();
    for (const finding of found) deps.onFinding?.(finding);
    findings.push(...found);
  }
  refuseFailed(findings);
  return findings;
}

export function refuseFailed(findings: readonly Finding[]): void {
  const failed = findings.filter((it) => it.status === "failed");
  if (failed.length === 0) return;
  throw new FleetError("PRECONDITION_FAILED", failed.map((it) => it.message).join("; "), {
    detail: { checks: failed.map((it) => it.check) },
  });
}

function looks(
  { options, deps, hub, member, members, cidrs }: Checked,
  signal: AbortSignal,
): readonly { readonly check: CheckName; readonly look: () => Promise<readonly Finding[]> }[] {
  return [
    {
      check: "version",
      look: () => Promise.all([checkVersion(hub, signal), checkVersion(member, signal)]),
    },
    {
      check: "permissions",
      look: () =>
        Promise.all([
          checkPermissions(hub, neededOnHub(options), signal),
          checkPermissions(member, neededOnMember(options), signal),
        ]),
    },
    { check: "hub", look: async () => [await checkHub(hub, members, deps, signal)] },
    { check: "cidrs", look: () => Promise.resolve([judgeCidrs(options, cidrs, members)]) },
    {
      check: "clock",
      look: async () => {
        const skews = await Promise.all([
          readSkew(hub.who, options.hub, deps.clock, signal),
          readSkew(member.who, options.member, deps.clock, signal),
        ]);
        return [judgeClocks(...skews)];
      },
    },
  ];
}
