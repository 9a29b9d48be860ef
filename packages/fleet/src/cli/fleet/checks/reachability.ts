import { randomBytes } from "node:crypto";
import { type Pod, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { CONTAINER_SECURITY, POD_SECURITY } from "../install/security.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";
import { whyNotRunning } from "#domain/pods.ts";

export interface HubSeenFromMember {
  readonly server: string;
  readonly ca: string | undefined;
  readonly image: string;
  /** For image, node and connection together. Unit: milliseconds. */
  readonly timeoutMs: number;
}

/** A pod that lives for one connection. */
function reachPod({ server, ca, image, timeoutMs }: HubSeenFromMember): Pod {
  return {
    metadata: {
      namespace: FLEET_SYSTEM_NAMESPACE,
      name: `fairlead-reach-${randomBytes(4).toString("hex")}`,
      labels: { "app.kubernetes.io/name": "fairlead-reach" },
    },
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds: Math.ceil(timeoutMs / 1000),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 1,
      securityContext: POD_SECURITY,
      containers: [
        {
          name: "reach",
          image,
          args: ["reach", "--server", server],
          env: [{ name: "FAIRLEAD_HUB_CA", value: ca ?? "" }],
          terminationMessagePolicy: "FallbackToLogsOnError",
          securityContext: CONTAINER_SECURITY,
        },
      ],
    },
  };
}

/** Whether a pod of the member reaches the hub by the address and the authorities that the agent will have. */
export async function checkReachability(
  member: Side,
  hub: HubSeenFromMember,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Finding> {
  const check = "reachability" as const;
  await awaitAccount(member, deps, signal);
  const made = await member.client.create(PODS, reachPod(hub), { signal });
  const key = keyOf(made);
  try {
    const ended = await waitFor(
      member.client,
      {
        of: PODS,
        key,
        timeoutMs: hub.timeoutMs,
        until: (it) => it === undefined || it.status?.phase === "Succeeded" || it.status?.phase === "Failed",
        message: (it) => whyNotRunning(it),
      },
      deps,
      signal,
    );
    if (ended?.status?.phase === "Succeeded")
      return { check, status: "ok", message: `a pod of ${member.who} reaches the hub at ${hub.server}` };
    return {
      check,
      status: "failed",
      message: `from a pod of ${member.who}: ${saidBy(ended)}. ${remedy(hub)}`,
    };
  } catch (error) {
    if (!hasCode(error, "TIMED_OUT")) throw error;
    const message = `the reachability probe pod did not start in ${member.who}: ${messageOf(error)}; pass an image that its nodes can pull with --image, or --skip-check reachability`;
    return { check, status: "failed", message };
  } finally {
    await member.client.delete(PODS, key, { gracePeriodSeconds: 0 }).catch(() => {});
  }
}

/** A separate, short limit: the account is created at once, or not at all. Unit: milliseconds. */
const ACCOUNT_MS = 10_000;

/** Every pod needs one, whether it uses it or not; in a new namespace it is created a moment later. */
async function awaitAccount({ who, client }: Side, deps: RuntimeDeps, signal: AbortSignal): Promise<void> {
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, "default");
  const message = (): string =>
    `${who} has no ServiceAccount ${key}; check that its kube-controller-manager runs`;
  await waitFor(
    client,
    { of: SERVICE_ACCOUNTS, key, timeoutMs: ACCOUNT_MS, until: (it) => it !== undefined, message },
    deps,
    signal,
  );
}

function remedy({ server }: HubSeenFromMember): string {
  return `Members connect to the hub: allow connections to ${server}, or pass another address with --hub-server (and its CA with --hub-ca-file)`;
}

function saidBy(pod: Pod | undefined): string {
  const ended = pod?.status?.containerStatuses?.[0]?.state?.terminated;
  return (ended?.message ?? pod?.status?.message ?? "the pod was deleted before it reported a result").trim();
}
