import { sameJson } from "@fairlead/base/json.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { familyOf, formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { DnsProxy, type DnsProxyOptions } from "./dns-proxy.ts";
import { DNS_PROXY_PORT } from "./names.ts";

/** Between two attempts to listen. Unit: milliseconds. */
const RETRY_MS = 5000;

/** The DNS proxy, while pods of the node need it. */
export class DnsProxies implements AsyncDisposable {
  readonly #options: Omit<DnsProxyOptions, "addresses">;
  #at: readonly string[] = [];
  #proxy: DnsProxy | undefined;
  #hasFailed = false;
  #retryAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: Omit<DnsProxyOptions, "addresses">) {
    this.#options = options;
  }

  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** When `listen` is due again. Unit: milliseconds. */
  get retryInMs(): number {
    const { clock } = this.#options.deps;
    return this.#hasFailed ? this.#retryAtMs - clock.monotonic() : Number.POSITIVE_INFINITY;
  }

  /** Does not fail: without a proxy its pods get no answers, and all else is as it should be. */
  async listen(addresses: readonly IpAddress[]): Promise<void> {
    const { clock, log } = this.#options.deps;
    const at = addresses.map(formatAddress);
    if (sameJson(at, this.#at) && (!this.#hasFailed || clock.monotonic() < this.#retryAtMs)) return;
    const isRepeated = sameJson(at, this.#at);
    await this.#close();
    this.#at = at;
    this.#hasFailed = false;
    if (at.length === 0) return;
    const proxy = new DnsProxy({ ...this.#options, addresses });
    try {
      await proxy.start();
      this.#proxy = proxy;
    } catch (error) {
      await proxy[Symbol.asyncDispose]();
      this.#hasFailed = true;
      this.#retryAtMs = clock.monotonic() + RETRY_MS;
      const fields = { addresses: at.join(" "), port: DNS_PROXY_PORT, error: messageOf(error) };
      if (!isRepeated)
        log.error("pods with policies about names get no DNS answers: the DNS proxy cannot listen", fields);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
    this.#options.servers[Symbol.dispose]();
  }

  async #close(): Promise<void> {
    await this.#proxy?.[Symbol.asyncDispose]();
    this.#proxy = undefined;
  }
}

export function oneOfEachFamily(addresses: readonly IpAddress[]): readonly IpAddress[] {
  return (["IPv4", "IPv6"] as const).flatMap(
    (family) => addresses.find((it) => familyOf(it) === family) ?? [],
  );
}
