import type { KeyObject } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { keyBytes } from "@fairlead/os/wireguard/keys.ts";
import { controlKey } from "#dataplane/control/keys.ts";
import { MAX_INDEX } from "./registration-table.ts";

/** A gateway as far as a relay needs it. */
export interface RelayGateway {
  readonly name: string;
  /** Range: 0 to 1023. */
  readonly index: number;
  readonly keys: readonly { readonly epoch: number; readonly publicKey: string }[];
}

/** The gateways that may use the relay, and the keys that it shares with them. */
export class GatewayKeys {
  readonly #privateKey: string;
  #byIndex: ReadonlyMap<number, RelayGateway> = new Map();
  /** By public key: a key agreement takes longer than any datagram may. Undefined for a key that is not one. */
  #shared = new Map<string, KeyObject | undefined>();

  constructor(privateKey: string) {
    this.#privateKey = privateKey;
  }

  get indexes(): ReadonlySet<number> {
    return new Set(this.#byIndex.keys());
  }

  nameOf(index: number): string {
    return this.#byIndex.get(index)?.name ?? String(index);
  }

  has(index: number): boolean {
    return this.#byIndex.has(index);
  }

  /** Where two claim one index, the first by name has it, so that all relays agree. */
  set(gateways: Iterable<RelayGateway>): void {
    const byIndex = new Map<number, RelayGateway>();
    for (const it of [...gateways].toSorted((a, b) => (a.name < b.name ? -1 : 1)))
      if (!byIndex.has(it.index)) byIndex.set(it.index, it);
    this.#byIndex = byIndex;
    const used = new Set([...byIndex.values()].flatMap((it) => it.keys.map(({ publicKey }) => publicKey)));
    this.#shared = new Map([...this.#shared].filter(([publicKey]) => used.has(publicKey)));
  }

  /** The key shared with the gateway in that epoch. */
  keyOf(index: number, epoch: number): KeyObject | undefined {
    const publicKey = this.#byIndex.get(index)?.keys.find((it) => it.epoch === epoch)?.publicKey;
    if (publicKey === undefined) return undefined;
    if (!this.#shared.has(publicKey)) this.#shared.set(publicKey, this.#share(publicKey));
    return this.#shared.get(publicKey);
  }

  #share(publicKey: string): KeyObject | undefined {
    try {
      return controlKey("relay", this.#privateKey, publicKey);
    } catch {
      return undefined;
    }
  }
}

/** What a relay needs of an object of the hub; undefined while it has no index. */
export function relayGateway({ metadata, spec }: Gateway): RelayGateway | undefined {
  if (spec.index === undefined || spec.index < 0 || spec.index > MAX_INDEX) return undefined;
  return { name: metadata.name, index: spec.index, keys: spec.keys ?? [] };
}

/**
 * Gateways of a file, for a relay without a hub: a JSON list of `{"name", "index", "keys": [{"epoch", "publicKey"}]}`.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function parseGateways(text: string): readonly RelayGateway[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", "the file of gateways is not JSON", { cause });
  }
  if (!Array.isArray(list)) throw new FleetError("OPTION_INVALID", "the file of gateways is not a JSON list");
  return list.map((it: unknown, at) => {
    const { name, index, keys } = isObject(it) ? it : {};
    if (typeof name !== "string" || name === "") throw wrong(at, "name", "is not a text");
    if (!isWhole(index, MAX_INDEX)) throw wrong(at, "index", `is not a whole number from 0 to ${MAX_INDEX}`);
    if (!Array.isArray(keys)) throw wrong(at, "keys", "is not a list");
    return {
      name,
      index,
      keys: keys.map((key: unknown) => {
        const { epoch, publicKey } = isObject(key) ? key : {};
        if (!isWhole(epoch, 0xffff_ffff)) throw wrong(at, "keys", "has an entry without epoch");
        if (typeof publicKey !== "string") throw wrong(at, "keys", "has an entry without publicKey");
        keyBytes(publicKey, `the file of gateways: [${at}].keys[].publicKey`);
        return { epoch, publicKey };
      }),
    };
  });
}

function isWhole(value: unknown, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max;
}

function wrong(at: number, field: string, what: string): FleetError {
  return new FleetError("OPTION_INVALID", `the file of gateways: [${at}].${field} ${what}`);
}
