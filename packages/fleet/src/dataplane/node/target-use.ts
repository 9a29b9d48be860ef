import { IDLE_PROBE_MS } from "./liveness.ts";

/**
 * Which probed targets carry traffic: these are probed often, the others seldom. The counters of devices are cheap to read; only
 * while a device carries more than probes, the bytes of its tunnels are read too.
 */

export interface TargetUseOptions {
  /** Packets that each device has sent and received. */
  readonly packets: () => ReadonlyMap<string, number>;
  /** Bytes that each tunnel has sent and received, by target. Targets that it lacks are in use with their device. */
  readonly bytes: () => Promise<ReadonlyMap<string, number>>;
}

interface Target {
  readonly id: string;
  readonly device: string;
}

/** Packets are counted over this time: idle targets are probed once in it, from both sides. Unit: milliseconds. */
const WINDOW_MS = IDLE_PROBE_MS;
/**
 * Packets in that time of the probes of one target: a request of either side and its answer, one of the size of the MTU, and as many of the other
 * targets may come at the same time. And other ones of a device, such as handshakes.
 */
const IDLE_PACKETS = 10;
const OTHER_PACKETS = 20;
/** How often the tunnels of a busy device are read, and how long a target counts as in use afterwards. Unit: milliseconds. */
const LOOK_MS = 1000;
const HOLD_MS = 10_000;
/**
 * Bytes a second, sent and received, that probes of both sides make at most while a tunnel is in use, and as much again: otherwise a tunnel that was in use
 * would stay so by the probes that it has for that reason. 20 packets of 128 bytes, and four of the size of the MTU.
 */
const IDLE_BYTES = 2 * (20 * 128 + 4 * 1440);

interface Reading<T> {
  readonly atMs: number;
  readonly values: T;
}

export class TargetUse {
  readonly #options: TargetUseOptions;
  readonly #usedUntilMs = new Map<string, number>();
  /** Of the last WINDOW_MS. */
  #packets: readonly Reading<ReadonlyMap<string, number>>[] = [];
  #bytes: Reading<ReadonlyMap<string, number>> | undefined;
  #noted: Reading<ReadonlyMap<string, number>> | undefined;

  constructor(options: TargetUseOptions) {
    this.#options = options;
  }

  isUsed(id: string, nowMs: number): boolean {
    return nowMs < (this.#usedUntilMs.get(id) ?? Number.NEGATIVE_INFINITY);
  }

  /** Bytes that were read for another purpose: they show flows of few packets, which the counters of devices do not. */
  note(values: ReadonlyMap<string, number>, nowMs: number): void {
    const before = this.#noted;
    this.#noted = { atMs: nowMs, values };
    if (before === undefined || nowMs - before.atMs < LOOK_MS) return;
    for (const [id, bytes] of values)
      if (isTraffic(bytes - (before.values.get(id) ?? bytes), nowMs - before.atMs))
        this.#usedUntilMs.set(id, nowMs + HOLD_MS);
  }

  async look(targets: readonly Target[], nowMs: number): Promise<void> {
    const packets = this.#options.packets();
    this.#packets = [...this.#packets, { atMs: nowMs, values: packets }].filter(
      ({ atMs }) => nowMs - atMs <= WINDOW_MS,
    );
    const before = this.#packets[0]?.values ?? packets;
    const counts = Map.groupBy(targets, (it) => it.device);
    const isBusy = (device: string): boolean =>
      (packets.get(device) ?? 0) - (before.get(device) ?? packets.get(device) ?? 0) >
      IDLE_PACKETS * (counts.get(device)?.length ?? 0) + OTHER_PACKETS;
    for (const [id, untilMs] of this.#usedUntilMs) if (untilMs <= nowMs) this.#usedUntilMs.delete(id);
    const busy = targets.filter((it) => isBusy(it.device));
    if (busy.length > 0) await this.#lookAtTunnels(busy, nowMs);
  }

  async #lookAtTunnels(targets: readonly Target[], nowMs: number): Promise<void> {
    const before = this.#bytes;
    const elapsedMs = nowMs - (before?.atMs ?? Number.NEGATIVE_INFINITY);
    if (elapsedMs < LOOK_MS) return;
    const values = await this.#options.bytes();
    this.#bytes = { atMs: nowMs, values };
    // Which of them it is shows the next look.
    const isFirst = elapsedMs > 2 * LOOK_MS;
    for (const { id } of targets) {
      const bytes = values.get(id);
      const isUsed = bytes === undefined || isTraffic(bytes - (before?.values.get(id) ?? bytes), elapsedMs);
      if (isUsed && !isFirst) this.#usedUntilMs.set(id, nowMs + HOLD_MS);
      else if (isFirst && !this.isUsed(id, nowMs)) this.#usedUntilMs.set(id, nowMs + 2 * LOOK_MS);
    }
  }
}

/** Whether a tunnel carried more than probes. */
function isTraffic(bytes: number, elapsedMs: number): boolean {
  return (bytes * 1000) / elapsedMs > IDLE_BYTES;
}
