import { type Secret, SECRETS } from "#api/core/v1/types.ts";
import { HUB_SECRET, MEMBER_ACCOUNT } from "#api/fairlead.dev/names.ts";
import { objectKey } from "#api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { type Clock, delay } from "#base/clock.ts";
import { FleetError, hasCode, messageOf } from "#base/errors.ts";
import { isObject } from "#base/json.ts";
import type { Credentials } from "#kube/config.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import type { KubeClient } from "#kube/types.ts";
import { readTokenLife } from "./hub-secret.ts";

/** The token of the moment, which the agent replaces while connections go on. */
export class TokenHolder implements Credentials {
  #token: string;
  constructor(token: string) {
    this.#token = token;
  }
  get token(): string {
    return this.#token;
  }
  set(token: string): void {
    this.#token = token;
  }
  current(): Promise<{ readonly token: string }> {
    return Promise.resolve({ token: this.#token });
  }
  /** The Secret's watch brings a newer one, or `renewToken` does: nothing is cached here. */
  expire(): void {}
}

/** Life asked for. The hub may give less. Unit: seconds. */
export const TOKEN_SECONDS = 86_400;
const RETRY_MS = { min: 1000, max: 60_000 };
/** Timers hold at most 2^31 - 1 ms; waking up early does no harm. */
const LONGEST_WAIT_MS = 3_600_000;

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

/**
 * Replaces the token at half of its life, in the holder and in the Secret, until `signal` aborts. The other half is time
 * for a hub that is away.
 */
export async function keepToken(
  parts: {
    readonly hub: KubeClient;
    readonly local: KubeClient;
    readonly cluster: string;
    readonly holder: TokenHolder;
    readonly deps: RuntimeDeps;
  },
  signal: AbortSignal,
): Promise<void> {
  const { hub, local, cluster, holder, deps } = parts;
  const account = { namespace: mailboxOf(cluster), name: MEMBER_ACCOUNT, seconds: TOKEN_SECONDS };
  let retryMs = RETRY_MS.min;
  for (;;) {
    const life = readTokenLife(holder.token);
    if (life === undefined || signal.aborted) return;
    await waitUntil(deps.clock, (life.fromMs + life.untilMs) / 2, signal).catch(ignoreAbort);
    // Another process may have renewed it meanwhile: the Secret's watch told the holder.
    if (readTokenLife(holder.token)?.untilMs !== life.untilMs) continue;
    try {
      const token = await requestToken(hub, account, signal);
      holder.set(token);
      await storeToken(local, token, signal);
      deps.log.info("renewed the token for the hub");
      retryMs = RETRY_MS.min;
    } catch (error) {
      if (signal.aborted) return;
      deps.log.warn("the token for the hub could not be renewed", { error: messageOf(error) });
      await delay(deps.clock, retryMs, signal).catch(ignoreAbort);
      retryMs = Math.min(RETRY_MS.max, retryMs * 2);
    }
  }
}

function ignoreAbort(error: unknown): void {
  if (!hasCode(error, "ABORTED")) throw error;
}

async function waitUntil(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const leftMs = atMs - clock.now();
    if (leftMs <= 0) return;
    await delay(clock, Math.min(leftMs, LONGEST_WAIT_MS), signal);
  }
}

async function storeToken(local: KubeClient, token: string, signal: AbortSignal): Promise<void> {
  const data = { token: Buffer.from(token, "utf8").toString("base64") };
  const patch: Pick<Secret, "data"> = { data };
  await local.mergePatch(SECRETS, objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET), patch, { signal });
}
