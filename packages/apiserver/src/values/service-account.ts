/** Names under which ServiceAccounts are known as users. Source: k8s.io/apiserver, pkg/authentication/serviceaccount. */

const PREFIX = "system:serviceaccount:";
export const ALL_SERVICE_ACCOUNTS_GROUP = "system:serviceaccounts";

export function serviceAccountUser(namespace: string, name: string): string {
  return `${PREFIX}${namespace}:${name}`;
}

export function serviceAccountGroups(namespace: string): string[] {
  return [ALL_SERVICE_ACCOUNTS_GROUP, `${ALL_SERVICE_ACCOUNTS_GROUP}:${namespace}`];
}

/** The ServiceAccount behind a user name, or undefined if the user is not a ServiceAccount. */
export function parseServiceAccountUser(
  user: string,
): { readonly namespace: string; readonly name: string } | undefined {
  if (!user.startsWith(PREFIX)) return undefined;
  const [namespace, name, ...rest] = user.slice(PREFIX.length).split(":");
  if (namespace === undefined || name === undefined || rest.length > 0) return undefined;
  return namespace === "" || name === "" ? undefined : { namespace, name };
}
