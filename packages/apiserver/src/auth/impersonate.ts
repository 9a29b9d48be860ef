import type { UserInfo } from "#values/object.ts";
import { badRequest } from "#status.ts";
import { denial } from "./denial.ts";
import { parseServiceAccountUser, serviceAccountGroups } from "#values/service-account.ts";
import {
  ANONYMOUS_USER,
  type Attributes,
  AUTHENTICATED_GROUP,
  type Authorizer,
  type Decision,
  type ResourceAttributes,
  UNAUTHENTICATED_GROUP,
} from "#values/authorizer.ts";

const EXTRA_PREFIX = "impersonate-extra-";
const AUTHENTICATION_GROUP = "authentication.k8s.io";

/**
 * The user to impersonate according to the `Impersonate-*` headers (`kubectl --as`), or `user` without these headers.
 * Each part needs the verb `impersonate`. Source: k8s.io/apiserver, pkg/endpoints/filters/impersonation.go.
 *
 * @throws {StatusError} 403 when a part is not allowed, 400 when parts come without a user.
 */
export function impersonate(
  user: UserInfo,
  headers: NodeJS.Dict<string[]>,
  authorizer: Authorizer,
): UserInfo {
  const wanted = readHeaders(headers);
  if (wanted === undefined) return user;
  const refused = deniedPart(user, wanted, authorizer);
  if (refused !== undefined) throw denial(refused.attributes, refused.decision);
  const account = parseServiceAccountUser(wanted.name);
  return {
    name: wanted.name,
    groups: completeGroups(wanted, account?.namespace),
    ...(wanted.uid === undefined ? {} : { uid: wanted.uid }),
    ...(Object.keys(wanted.extra).length === 0 ? {} : { extra: wanted.extra }),
  };
}

interface Wanted {
  readonly name: string;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** Whether `user` could act as another one. */
export function mayImpersonate(
  user: UserInfo,
  other: Pick<Wanted, "name" | "groups">,
  authorizer: Authorizer,
): boolean {
  return deniedPart(user, { ...other, uid: undefined, extra: {} }, authorizer) === undefined;
}

/** The first part of `wanted` that `user` may not impersonate. */
function deniedPart(
  user: UserInfo,
  wanted: Wanted,
  authorizer: Authorizer,
): { readonly attributes: Attributes; readonly decision: Decision } | undefined {
  for (const part of partsOf(wanted)) {
    const resource = { group: "", subresource: "", namespace: undefined, ...part };
    const attributes = { user, verb: "impersonate", resource };
    const decision = authorizer.authorize(attributes);
    if (!decision.allowed) return { attributes, decision };
  }
  return undefined;
}

type Part = Partial<ResourceAttributes> & { readonly resource: string; readonly name: string };

function* partsOf(wanted: Wanted): Generator<Part> {
  const account = parseServiceAccountUser(wanted.name);
  if (account === undefined) yield { resource: "users", name: wanted.name };
  else yield { resource: "serviceaccounts", ...account };
  for (const name of wanted.groups) yield { resource: "groups", name };
  for (const [key, values] of Object.entries(wanted.extra)) {
    for (const name of values)
      yield { group: AUTHENTICATION_GROUP, resource: "userextras", subresource: key, name };
  }
  if (wanted.uid !== undefined) yield { group: AUTHENTICATION_GROUP, resource: "uids", name: wanted.uid };
}

function readHeaders(headers: NodeJS.Dict<string[]>): Wanted | undefined {
  const name = headers["impersonate-user"]?.[0] ?? "";
  const uid = headers["impersonate-uid"]?.[0];
  const groups = headers["impersonate-group"] ?? [];
  const extra: Record<string, readonly string[]> = {};
  for (const [header, values] of Object.entries(headers)) {
    if (header.startsWith(EXTRA_PREFIX)) extra[unescapeKey(header.slice(EXTRA_PREFIX.length))] = values ?? [];
  }
  if (name !== "") return { name, uid, groups, extra };
  if (uid === undefined && groups.length === 0 && Object.keys(extra).length === 0) return undefined;
  throw badRequest("requested to impersonate groups, a uid or extras without impersonating a user");
}

/** Keys may hold what a header's name cannot, percent-encoded. */
function unescapeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/** Groups that a login would have given: they are added where the caller names none of their kind. */
function completeGroups(wanted: Wanted, accountNamespace: string | undefined): readonly string[] {
  const groups = [...wanted.groups];
  if (accountNamespace !== undefined && groups.length === 0)
    groups.push(...serviceAccountGroups(accountNamespace));
  const implied = wanted.name === ANONYMOUS_USER ? UNAUTHENTICATED_GROUP : AUTHENTICATED_GROUP;
  const isNamed = groups.includes(AUTHENTICATED_GROUP) || groups.includes(UNAUTHENTICATED_GROUP);
  return isNamed ? groups : [...groups, implied];
}
