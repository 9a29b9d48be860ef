import type { Clock } from "@fairlead/base/clock.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { type DnsAnswer, FqdnCache } from "#policy/fqdn-cache.ts";
import type { Changes } from "#policy/state.ts";
import { fqdnSetsOf } from "#policy/enforced.ts";
import { FQDN, type FqdnSet } from "#policy/peers.ts";
import { FAMILIES, peerSet } from "./names.ts";

/** How long addresses count that an agent finds in the kernel when it starts: it does not know their TTL. Unit: milliseconds. */
const ADOPTED_MS = 300_000;
/** How often TTLs are looked at. Unit: milliseconds. */
const EXPIRE_MS = 10_000;

/** Whether all that changes is that names have more addresses: rules that deny have none, so that no flow is revoked. */
export function onlyLearns({ sets, groups, groupsGone, addresses, host }: Changes): boolean {
  const others = groups.length + groupsGone.length + addresses.length;
  return (
    others === 0 &&
    host === undefined &&
    sets.length > 0 &&
    sets.every((it) => it.key.startsWith(FQDN) && it.state === "changed" && it.removed.length === 0)
  );
}

/** The sets of names as the kernel is to have them, and the answers that wait until it has. */
export class FqdnSets {
  readonly #cache = new FqdnCache();
  /** Of each egress group. */
  readonly #ofGroups = new Map<string, readonly FqdnSet[]>();
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #waiters: (() => void)[] = [];
  #isWriting = false;
  #expireAtMs = 0;

  /** @param onChange - `take` is due. */
  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Resolves when the kernel has the addresses. */
  learn(answer: DnsAnswer): Promise<void> {
    this.#cache.answered(answer);
    if (!this.#cache.isChanged && !this.#isWriting) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
      this.#onChange();
    });
  }

  /**
   * Adds to `changes` what DNS has answered.
   *
   * @param actual - Of an agent that has just started: what the kernel has.
   */
  take(changes: Changes, actual?: NftTable): { readonly changes: Changes; readonly written: () => void } {
    const gone: FqdnSet[] = [];
    for (const { key, state } of changes.sets) {
      if (!key.startsWith(FQDN) || state === "changed") continue;
      const set = key.slice(FQDN.length);
      if (state === "gone") gone.push(set);
      else {
        this.#cache.track(set);
        this.#adopt(set, actual);
      }
    }
    for (const it of changes.groups) this.#ofGroups.set(it.key, fqdnSetsOf(it));
    for (const { address, groups } of changes.addresses)
      if (groups === undefined) this.#cache.podGone(address);
      else this.#cache.moved(address, this.#ofGroups.get(groups.egress ?? "") ?? []);
    for (const it of gone) this.#cache.forget(it);
    for (const it of changes.groupsGone) this.#ofGroups.delete(it);
    const waiters = this.#waiters;
    this.#waiters = [];
    this.#isWriting = true;
    const sets = [...changes.sets, ...this.#cache.take()];
    return {
      changes: { ...changes, sets },
      written: () => {
        this.#isWriting = false;
        for (const resolve of waiters) resolve();
      },
    };
  }

  /** When TTLs have to be looked at again. Unit: milliseconds. */
  get expiresInMs(): number {
    return this.#cache.isEmpty ? Number.POSITIVE_INFINITY : this.#expireAtMs - this.#clock.monotonic();
  }

  /** @param used - Reads the addresses that have connections. */
  async expire(used: () => Promise<ReadonlySet<IpAddress>>): Promise<void> {
    const nowMs = this.#clock.monotonic();
    if (nowMs < this.#expireAtMs) return;
    this.#expireAtMs = nowMs + EXPIRE_MS;
    if (!this.#cache.hasExpired(nowMs)) return;
    const found = await used();
    this.#cache.expire(nowMs, (it) => found.has(it));
  }

  #adopt(set: FqdnSet, actual: NftTable | undefined): void {
    const untilMs = this.#clock.monotonic() + ADOPTED_MS;
    const found = FAMILIES.flatMap((it) => [
      ...(actual?.sets.get(peerSet(`${FQDN}${set}`, it))?.elements.keys() ?? []),
    ]).flatMap((it) => tryParseAddress(it) ?? []);
    if (found.length > 0) this.#cache.adopt(set, new Map(found.map((it) => [it, untilMs])));
  }
}
