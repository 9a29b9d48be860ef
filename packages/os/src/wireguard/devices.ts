import { sameJson } from "@fairlead/base/json.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { diffDevice, endpointsOf, type WireguardChange } from "./diff.ts";
import type { EndpointRecords, WireguardDriver } from "./driver.ts";
import { type ActualDevice, normalizeDevice, type RefusedPeer, type WireguardDevice } from "./state.ts";

export interface ApplyResult {
  /** The device was made: it was absent, or the process that served it had ended. Its sessions restart. */
  readonly isCreated: boolean;
  /** Undefined if the configuration was as desired. */
  readonly change: WireguardChange | undefined;
  /** Peers that the device does not have, because WireGuard could not have them. The others are as desired. */
  readonly refused: readonly RefusedPeer[];
  /** By public key: the endpoints that the device was found with. */
  readonly endpoints: ReadonlyMap<string, string>;
  /** The amount that each peer of the device had sent since it was added, by public key. Unit: bytes. */
  readonly received: ReadonlyMap<string, number>;
}

/**
 * Passes after which a device that another program removes or changes is reported. A new device takes two: one that makes
 * it, one that configures it.
 */
const PASSES = 4;

function released(device: WireguardDevice): WireguardDevice {
  return { ...device, peers: device.peers.map((it) => ({ ...it, isHeld: false })) };
}

function receivedOf({ peers }: ActualDevice): ReadonlyMap<string, number> {
  return new Map(peers.map((it) => [it.publicKey, it.rxBytes]));
}

/** WireGuard devices of one namespace. Calls for one device are carried out one after the other. */
export class WireguardDevices implements Disposable {
  readonly #driver: WireguardDriver;
  readonly #records: EndpointRecords;
  /** The last call for each device. */
  readonly #calls = new Map<string, Promise<unknown>>();

  constructor(driver: WireguardDriver, records: EndpointRecords) {
    this.#driver = driver;
    this.#records = records;
  }

  get kind(): WireguardDriver["kind"] {
    return this.#driver.kind;
  }

  list(signal: AbortSignal): Promise<readonly string[]> {
    return this.#driver.list(signal);
  }

  read(name: string, signal: AbortSignal): Promise<ActualDevice | undefined> {
    return this.#driver.read(name, signal);
  }

  /**
   * Makes the device as desired, by the smallest change; does nothing to one that is.
   *
   * @throws {FleetError} `OPTION_INVALID` for a device that WireGuard could not have, `WIREGUARD_FAILED` for what it refuses.
   */
  apply(device: WireguardDevice, signal: AbortSignal): Promise<ApplyResult> {
    const { desired, refused } = normalizeDevice(device);
    return this.#inTurn(desired.name, async () => ({ ...(await this.#apply(desired, signal)), refused }));
  }

  /**
   * Removes these peers from the device, and adds them again as desired: WireGuard forgets their sessions, and the time of the last
   * handshake that each began.
   */
  async forget(device: WireguardDevice, publicKeys: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const others = device.peers.filter((it) => !publicKeys.has(it.publicKey));
    await this.apply({ ...device, peers: others }, signal);
    await this.apply(device, signal);
  }

  /** Removes the device and all that belongs to it. An absent device is not an error. */
  remove(name: string, signal: AbortSignal): Promise<void> {
    return this.#inTurn(name, async () => {
      await this.#driver.remove(name, signal);
      await this.#records.write(name, new Map());
    });
  }

  /** Stops watching. The devices stay. */
  [Symbol.dispose](): void {
    this.#driver[Symbol.dispose]();
  }

  async #apply(desired: WireguardDevice, signal: AbortSignal): Promise<Omit<ApplyResult, "refused">> {
    const { name, mtu } = desired;
    let isCreated = false;
    let found: ActualDevice | undefined;
    let result: WireguardChange | undefined;
    for (let pass = 0; pass < PASSES; pass++) {
      const actual = await this.#driver.read(name, signal);
      if (actual === undefined) {
        await this.#driver.create(name, mtu, signal);
        isCreated = true;
        continue;
      }
      found ??= actual;
      const before = await this.#records.read(name);
      // A held endpoint that is learned again at once is not another program at work: the next call sets it again.
      const change = diffDevice(actual, result === undefined ? desired : released(desired), before);
      const isRight = actual.isUp && actual.mtu === mtu;
      const after = endpointsOf(desired);
      // An endpoint that is set and not recorded is set again after a crash, which does no harm; the reverse would.
      if (change !== undefined) await this.#driver.change(name, change, signal);
      if (!sameJson([...before], [...after])) await this.#records.write(name, after);
      if (!isRight) await this.#driver.setUp(name, mtu, signal);
      result ??= change;
      if (change === undefined && isRight)
        return { isCreated, change: result, endpoints: endpointsOf(found), received: receivedOf(found) };
    }
    throw new FleetError("WIREGUARD_FAILED", `another program keeps changing the WireGuard device ${name}`, {
      retriable: true,
    });
  }

  async #inTurn<T>(name: string, call: () => Promise<T>): Promise<T> {
    const before = this.#calls.get(name);
    const mine = (before ?? Promise.resolve()).then(call, call);
    this.#calls.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#calls.get(name) === mine) this.#calls.delete(name);
    }
  }
}
