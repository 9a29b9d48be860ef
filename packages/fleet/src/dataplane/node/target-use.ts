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

/** How often it is looked at, and how long a target counts as in use afterwards. Unit: milliseconds. */
const LOOK_MS = 1000;
const HOLD_MS = 10_000;
/** Packets a second and target that idle probes from both sides make at most, with room for handshakes. */
const IDLE_PACKETS = 4;
/** Bytes a second that probes of both sides make at most: 16 packets of 64 bytes, and as much again. */
const IDLE_BYTES = 2048;

export class TargetUse {
  readonly #options: TargetUseOptions;
  readonly #usedUntilMs = new Map<string, number>();
  #packets: ReadonlyMap<string, number> = new Map();
  #bytes: ReadonlyMap<string, number> = new Map();
  #bytesAtMs = 0;
  #lookedAtMs: number | undefined;

  constructor(options: TargetUseOptions) {
    this.#options = options;
  }

  isUsed(id: string, nowMs: number): boolean {
    return nowMs < (this.#usedUntilMs.get(id) ?? Number.NEGATIVE_INFINITY);
  }

  /** Looks if it is time. */
  async look(targets: readonly Target[], nowMs: number): Promise<void> {
    const elapsedMs = nowMs - (this.#lookedAtMs ?? nowMs);
    if (this.#lookedAtMs !== undefined && elapsedMs < LOOK_MS) return;
    const before = this.#packets;
    const isFirst = this.#lookedAtMs === undefined;
    this.#lookedAtMs = nowMs;
    this.#packets = this.#options.packets();
    if (isFirst) return;
    const busy = new Set(
      [...new Set(targets.map((it) => it.device))].filter((device) => {
        const count = targets.filter((it) => it.device === device).length;
        const packets = (this.#packets.get(device) ?? 0) - (before.get(device) ?? 0);
        return (packets * 1000) / elapsedMs > IDLE_PACKETS * count;
      }),
    );
    for (const [id, untilMs] of this.#usedUntilMs) if (untilMs <= nowMs) this.#usedUntilMs.delete(id);
    if (busy.size > 0)
      await this.#lookAtTunnels(
        targets.filter((it) => busy.has(it.device)),
        nowMs,
      );
  }

  async #lookAtTunnels(targets: readonly Target[], nowMs: number): Promise<void> {
    const [before, elapsedMs] = [this.#bytes, nowMs - this.#bytesAtMs];
    this.#bytes = await this.#options.bytes();
    this.#bytesAtMs = nowMs;
    for (const { id } of targets) {
      const bytes = this.#bytes.get(id);
      const isUsed =
        bytes === undefined || ((bytes - (before.get(id) ?? bytes)) * 1000) / elapsedMs > IDLE_BYTES;
      if (isUsed) this.#usedUntilMs.set(id, nowMs + HOLD_MS);
    }
  }
}
