import { MEMBER_ACCOUNT } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError } from "#base/errors.ts";
import { isObject } from "#base/json.ts";
import { clockOfServer } from "#kube/server-clock.ts";
import type { KubeClient } from "#kube/types.ts";
import { HUB_KEYS, readTokenLife } from "./hub-secret.ts";
import { keepRenewed, type RenewalParts } from "./renewal.ts";
import { storeInHubSecret } from "./store.ts";

/** Life asked for. The hub may give less. Unit: seconds. */
export const TOKEN_SECONDS = 86_400;

/** Asks the API server for a token of a service account (TokenRequest, authentication.k8s.io/v1). */
export async function requestToken(
  client: KubeClient,
  account: { readonly namespace: string; readonly name: string; readonly seconds: number },
  signal: AbortSignal,
): Promise<string> {
  const path = `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`;
  const body = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { expirationSeconds: account.seconds },
  };
  const answer = await client.request("POST", path, body, { signal });
  const status = isObject(answer) ? answer["status"] : undefined;
  const token = isObject(status) ? status["token"] : undefined;
  if (typeof token === "string" && token !== "") return token;
  throw new FleetError("API_UNEXPECTED", `the hub gave no token for ${account.namespace}/${account.name}`);
}

/** Replaces the token at half of its life, in the holder and in the Secret, until `signal` aborts. */
export async function keepToken(
  parts: RenewalParts & { readonly cluster: string },
  signal: AbortSignal,
): Promise<void> {
  const { hub, local, cluster, holder, deps } = parts;
  const account = { namespace: mailboxOf(cluster), name: MEMBER_ACCOUNT, seconds: TOKEN_SECONDS };
  const renewal = {
    what: "token",
    share: () => 0.5,
    life: () => {
      const { proof } = holder.access;
      return proof.kind === "token" ? readTokenLife(proof.token) : undefined;
    },
    renew: async () => {
      const token = await requestToken(hub, account, signal);
      holder.set({ ...holder.access, proof: { kind: "token", token } });
      await storeInHubSecret(local, { [HUB_KEYS.token]: token }, signal);
    },
  };
  // Its life is in the hub's time.
  await keepRenewed(renewal, { ...deps, clock: clockOfServer(hub, deps.clock) }, signal);
}
