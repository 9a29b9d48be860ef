import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { EVENTS, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_REFUSED } from "#api/fairlead.dev/identity.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { readHubSecret } from "#api/fairlead.dev/hub-secret.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { consume } from "./join-credentials.ts";
import { type Joining, timeoutOf } from "./joining.ts";
import type { Step } from "./steps.ts";

/** The conditions that a join waits for, and its messages if they do not become true. */

export function awaitStep(joining: Joining): Step {
  const { options } = joining;
  return {
    title: `wait until ${options.name} has joined`,
    plan: () => Promise.resolve([]),
    run: async () => {
      try {
        await awaitProof(joining);
        await awaitJoined(joining);
      } catch (error) {
        if (!hasCode(error, "TIMED_OUT")) throw error;
        throw new FleetError("TIMED_OUT", `${error.message}${await diagnose(joining)}`, {
          cause: error.cause,
        });
      }
      await consume(joining);
    },
  };
}

/** Until the agent has its certificate, where that is how the member shows who it is. */
async function awaitProof(joining: Joining): Promise<void> {
  const { options, deps, member, signal } = joining;
  await waitFor(
    member.client,
    {
      of: SECRETS,
      key: objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET),
      timeoutMs: timeoutOf(joining),
      until: (it) => {
        const read = it === undefined ? undefined : readHubSecret(it);
        return read?.kind === "access" && read.access.proof.kind !== "bootstrap";
      },
      message: () => `${options.name} did not get a certificate within ${timeoutOf(joining) / 1000} s`,
    },
    deps,
    signal,
  );
}

async function awaitJoined(joining: Joining): Promise<MemberCluster | undefined> {
  const { options, deps, hub, signal } = joining;
  const said = (it: MemberCluster | undefined): string =>
    it?.status?.conditions?.find((condition) => condition.type === "Joined")?.message ??
    'the hub does not report its status; check that "fairlead hub" runs';
  return waitFor(
    hub.client,
    {
      of: MEMBER_CLUSTERS,
      key: objectKey(undefined, options.name),
      timeoutMs: timeoutOf(joining),
      until: (it) => isConditionTrue(it?.status?.conditions, "Joined"),
      message: (it) => `${options.name} did not join within ${timeoutOf(joining) / 1000} s: ${said(it)}`,
    },
    deps,
    signal,
  );
}

/** Further observations, after a timeout. */
async function diagnose({ options, hub, signal }: Joining): Promise<string> {
  const found: string[] = [];
  const requests = await hub.client
    .list(CERTIFICATE_SIGNING_REQUESTS, { signal })
    .then((it) => it.items)
    .catch(() => []);
  const own = requests.filter((it) => it.metadata.name.startsWith(`fleet-member-${options.name}-`));
  const last = own.toSorted((a, b) => Date.parse(created(a)) - Date.parse(created(b))).at(-1);
  if (last !== undefined) {
    const refusal = await refusalOf(last, hub.client, signal);
    found.push(`Its last certificate request, ${last.metadata.name}, is ${stateOf(last)}${refusal}`);
  } else if (options.install === undefined)
    found.push(
      'There is no certificate request on the hub; check that "fairlead member" runs in the cluster',
    );
  if (options.install !== undefined)
    found.push(`Its agent runs; see kubectl -n ${FLEET_SYSTEM_NAMESPACE} logs deploy/fairlead-member`);
  return found.map((it) => `. ${it}`).join("");
}

/** The event that the hub reported when its approval was refused. */
async function refusalOf(
  { metadata }: CertificateSigningRequest,
  client: KubeClient,
  signal: AbortSignal,
): Promise<string> {
  const fieldSelector = `involvedObject.name=${metadata.name}`;
  const events = await client
    .list(EVENTS, { namespace: "default", fieldSelector, signal })
    .then((it) => it.items)
    .catch(() => []);
  const refused = events.find((it) => it.reason === HUB_REFUSED);
  return refused?.message === undefined ? "" : `: ${refused.message}`;
}

function created(request: CertificateSigningRequest): string {
  return request.metadata.creationTimestamp ?? "";
}

function stateOf({ status }: CertificateSigningRequest): string {
  const no = status?.conditions?.find((it) => it.type === "Denied" || it.type === "Failed");
  if (no !== undefined) return `${no.type.toLowerCase()}: ${no.message ?? no.reason ?? ""}`;
  if (status?.certificate !== undefined) return "signed";
  return status?.conditions?.some((it) => it.type === "Approved") === true
    ? "approved but not signed; check that the hub's kube-controller-manager runs csrsigning"
    : "neither approved nor denied by the hub";
}
