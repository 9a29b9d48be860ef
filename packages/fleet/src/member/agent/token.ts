import { MEMBER_ACCOUNT } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { HUB_KEYS, readTokenLife, TOKEN_SECONDS } from "#api/fairlead.dev/hub-secret.ts";
import { keepRenewed, type RenewalParts } from "./renewal.ts";
import { storeInHubSecret } from "./store.ts";

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
