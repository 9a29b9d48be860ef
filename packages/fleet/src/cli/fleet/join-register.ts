import { HEARTBEAT_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { memberUser } from "#api/fairlead.dev/identity.ts";
import { CLUSTER_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { certificateSubject, accountSubject, planIdentity, signsCertificates } from "./identity.ts";
import { forgetMember } from "./leave.ts";
import { type Change, restore, type Step } from "./steps.ts";
import { type Joining, timeoutOf } from "./joining.ts";

/** The MemberCluster, with the identity that the member is to have. */
export function registerStep(joining: Joining): Step {
  const { options, deps, hub, present, signal } = joining;
  const { name, identity: kind, rotate = false } = options;
  const key = objectKey(undefined, name);
  const known = planIdentity(name, present, { kind, rotate });
  return {
    title: `register ${name} with the hub`,
    plan: () => {
      const cluster = hub.who;
      if (present === undefined)
        return Promise.resolve<Change[]>([
          {
            cluster,
            verb: "create",
            kind: "MemberCluster",
            name,
            note: `identity: ${known?.name ?? `${memberUser(name)} if the hub signs certificates, else a ServiceAccount; a test request determines which`}`,
          },
          {
            cluster,
            verb: "create",
            kind: "Namespace",
            name: mailboxOf(name),
            note: "by the hub, with its permissions",
          },
        ]);
      const isSame = isRegistered(joining, known ?? present.spec.identity);
      return Promise.resolve<Change[]>([
        {
          cluster,
          verb: isSame ? "none" : "update",
          kind: "MemberCluster",
          name,
          note: `identity: ${known?.name}${isAdopted(present) ? "; adopted: it has no cluster UID" : ""}`,
        },
      ]);
    },
    run: async (undo) => {
      const identity = known ?? (await askHub(joining));
      if (present === undefined) {
        undo.add(`MemberCluster ${name} of ${hub.who}`, () => forgetMember(hub.client, name));
        const metadata = { name, ...metadataOf(joining) };
        const spec = { identity, heartbeatPeriodSeconds: options.heartbeatSeconds ?? HEARTBEAT_SECONDS };
        try {
          await hub.client.create(MEMBER_CLUSTERS, { metadata, spec }, { signal });
        } catch (error) {
          if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
          // What was done up to here the other one needs, too.
          undo.keep();
          throw new FleetError(
            "API_ALREADY_EXISTS",
            `${name} is being registered by another join; wait until it finishes, and see "fairlead status"`,
            { cause: error },
          );
        }
      } else if (!isRegistered(joining, identity)) {
        undo.add(`MemberCluster ${name} of ${hub.who}`, () => restore(hub.client, MEMBER_CLUSTERS, present));
        const metadata = metadataOf(joining);
        // A merge would keep fields of the previous identity.
        const whole = { apiGroup: null, namespace: null, ...identity };
        await hub.client.mergePatch(
          MEMBER_CLUSTERS,
          key,
          { metadata, spec: { identity: whole } },
          { signal },
        );
      }
      await waitFor(
        hub.client,
        {
          of: NAMESPACES,
          key: objectKey(undefined, mailboxOf(name)),
          timeoutMs: timeoutOf(joining),
          until: (it) => it !== undefined && !isDeleting(it),
          message: () =>
            `the hub did not create namespace ${mailboxOf(name)} within ${timeoutOf(joining) / 1000} s; check that "fairlead hub" runs`,
        },
        deps,
        signal,
      );
      if (present === undefined) return undefined;
      if (!isAdopted(present)) {
        const [was, is] = [present.spec.identity.name, identity.name];
        return was === is ? "already there" : `identity rotated from ${was} to ${is}`;
      }
      return `adopted MemberCluster ${name}, which had no cluster UID; its identity was ${present.spec.identity.kind} ${present.spec.identity.name}`;
    },
  };
}

/** Whether another program created the MemberCluster, so that it has no cluster UID yet. */
function isAdopted(present: MemberCluster): boolean {
  return present.metadata.annotations?.[CLUSTER_UID_ANNOTATION] === undefined;
}

function isRegistered(joining: Joining, identity: Subject): boolean {
  const { present } = joining;
  const { annotations, labels = {} } = metadataOf(joining);
  const hasAll =
    isWithin(annotations, present?.metadata.annotations) && isWithin(labels, present?.metadata.labels);
  return hasAll && sameJson(present?.spec.identity, identity);
}

type Texts = Readonly<Record<string, string>>;

function isWithin(wanted: Texts, now: Texts = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => now[key] === value);
}

function metadataOf({ options: { labels }, annotations, uid }: Joining): {
  readonly annotations: Texts;
  readonly labels?: Texts;
} {
  return {
    annotations: { ...annotations, [CLUSTER_UID_ANNOTATION]: uid },
    ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { labels }),
  };
}

async function askHub({ options, deps, hub, signal }: Joining): Promise<Subject> {
  const signs = await signsCertificates(hub.client, deps, signal);
  return signs ? certificateSubject(options.name, 1) : accountSubject(options.name);
}
