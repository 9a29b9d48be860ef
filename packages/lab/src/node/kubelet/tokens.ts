import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { TokenWish } from "../pod/volumes.ts";

/** Tokens of one pod's service account, bound to the pod, each renewed at 80 % of its life as upstream does it. */
export class PodTokens {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #tokens = new Map<string, { readonly token: string; readonly renewAtMs: number }>();

  constructor(client: KubeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * Fetches what is missing or due for renewal.
   *
   * @returns When the next renewal is due. Unit: milliseconds since the Unix epoch.
   */
  async ensure(pod: Pod, wishes: readonly TokenWish[], signal: AbortSignal): Promise<number | undefined> {
    let dueAtMs: number | undefined;
    for (const wish of wishes) {
      let held = this.#tokens.get(keyOf(wish));
      if (held === undefined || held.renewAtMs <= this.#clock.now()) {
        held = await this.#request(pod, wish, signal);
        this.#tokens.set(keyOf(wish), held);
      }
      dueAtMs = Math.min(dueAtMs ?? Infinity, held.renewAtMs);
    }
    return dueAtMs;
  }

  get(wish: TokenWish): string | undefined {
    return this.#tokens.get(keyOf(wish))?.token;
  }

  async #request(pod: Pod, wish: TokenWish, signal: AbortSignal) {
    const { name, namespace = "", uid = "" } = pod.metadata;
    const account = pod.spec?.serviceAccountName ?? "default";
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(account)}/token`;
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: {},
      spec: {
        audiences: wish.audience === "" ? [] : [wish.audience],
        expirationSeconds: wish.expirationSeconds,
        boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
      },
    };
    const askedAtMs = this.#clock.now();
    const answer = await this.#client.request("POST", path, body, { signal });
    const status = isObject(answer) && isObject(answer["status"]) ? answer["status"] : {};
    const { token, expirationTimestamp } = status;
    if (typeof token !== "string" || typeof expirationTimestamp !== "string")
      throw new FleetError(
        "API_UNEXPECTED",
        `cannot get a token for service account ${namespace}/${account}: the API server returned none`,
      );
    const lifeMs = Date.parse(expirationTimestamp) - askedAtMs;
    return { token, renewAtMs: askedAtMs + lifeMs * 0.8 };
  }
}

function keyOf({ audience, expirationSeconds }: TokenWish): string {
  return `${expirationSeconds} ${audience}`;
}
