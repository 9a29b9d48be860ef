import { FLEET_SYSTEM_NAMESPACE } from "../networking.fleet.azure.com/names.ts";
import { isClusterName } from "./cluster-names.ts";

/**
 * The identity of a member on its hub. A certificate cannot be revoked in Kubernetes, a RoleBinding can: it names one
 * generation of the identity, and a certificate of another generation is good for nothing.
 */

/** Organization of every member's certificate. A revoked certificate has it too: no right to data hangs on it. */
export const MEMBERS_GROUP = "fleet:members";

/** Label of the ServiceAccounts in `fleet-system` on the hub by whose tokens clusters join: which member it is for. */
export const JOINS_LABEL = "fairlead.dev/joins";
/** Annotation of such an account: uid of the one request for a certificate that its token was good for. */
export const USED_BY_ANNOTATION = "fairlead.dev/used-by";

/** Annotation of such an account: for how many seconds its token is good, if that is not `BOOTSTRAP_SECONDS`. */
export const LIFE_ANNOTATION = "fairlead.dev/token-seconds";

/** Reason of the event about a certificate request that the hub has no permission to approve. */
export const HUB_REFUSED = "AnswerRefused";

/** Life of a token to join with; a TokenRequest takes no less than 600. Unit: seconds. */
export const BOOTSTRAP_SECONDS = 900;
/** Life of a member's certificate, and the most the hub approves. Unit: seconds. */
export const CERTIFICATE_SECONDS = 30 * 86_400;

const PREFIX = "fleet:member:";

/** "fleet:member:east"; of later generations "fleet:member:east:2". */
export function memberUser(cluster: string, generation = 1): string {
  return generation === 1 ? `${PREFIX}${cluster}` : `${PREFIX}${cluster}:${generation}`;
}

export interface MemberIdentity {
  readonly cluster: string;
  readonly generation: number;
}

/** The member that a user name stands for; undefined for any other user. One name for each identity: no other spelling. */
export function parseMemberUser(user: string): MemberIdentity | undefined {
  if (!user.startsWith(PREFIX)) return undefined;
  const [cluster = "", digits = "1", ...rest] = user.slice(PREFIX.length).split(":");
  const generation = Number(digits);
  const isRead = isClusterName(cluster) && Number.isSafeInteger(generation) && generation > 0;
  if (!isRead || rest.length > 0 || memberUser(cluster, generation) !== user) return undefined;
  return { cluster, generation };
}

/** Whether a name is, or is spelt like, one of a member's. */
export function isMemberUserLike(user: string): boolean {
  return user.startsWith(PREFIX);
}

/** Name of the account with which `cluster` joins. */
export function bootstrapAccount(cluster: string): string {
  return `join-${cluster}`;
}

/** Its user name; that of all such accounts begins with the one for "". */
export function bootstrapUser(cluster: string): string {
  return `system:serviceaccount:${FLEET_SYSTEM_NAMESPACE}:${bootstrapAccount(cluster)}`;
}
