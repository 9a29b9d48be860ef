import type { Clock } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { PodRuntime, PodSandbox } from "@fairlead/os/cri/runtime.ts";
import { LinkReader } from "@fairlead/os/iproute/link-reader.ts";
import type { Link } from "@fairlead/os/iproute/parse.ts";
import { netnsInode } from "@fairlead/os/netns/netns.ts";
import { attachPod, deletePodDevice, detachPod } from "./attach.ts";
import type { PodLink } from "./link.ts";
import { isVethName, vethName } from "./names.ts";

export interface PodLinksOptions {
  readonly runtime: PodRuntime;
  readonly clock: Clock;
  /** File of the fleet namespace. */
  readonly fleet: string;
}

export interface PodLinksResult {
  /** UIDs of the pods whose links are as desired. */
  readonly attached: ReadonlySet<string>;
  /** Why other pods are not attached, by their UIDs. Pods without a sandbox have none: they start, or have ended. */
  readonly problems: ReadonlyMap<string, string>;
}

/** A link that was found as desired. */
interface Checked {
  /** All that it was checked with: a difference is a reason to look again. */
  readonly key: string;
  readonly atMs: number;
}

/**
 * After this time, a link is read again although nothing of it has changed, in case that a program in the pod has removed
 * a route. The device itself is looked at in each pass. Unit: milliseconds.
 */
const RECHECK_MS = 300_000;
/** Reading one link takes some 50 ms of processor time. */
const RECHECKS_PER_PASS = 2;

interface FleetDevices {
  /** Those that lead to pods. */
  readonly devices: readonly Link[];
  readonly fleetInode: number | undefined;
}

/** What one pass has read. */
interface Pass extends FleetDevices {
  readonly signal: AbortSignal;
  readonly sandboxes: ReadonlyMap<string, PodSandbox>;
}

/** Keeps the links of all pods of a node as desired. Its memory saves work only: any pass may be the first. */
export class PodLinks {
  readonly #runtime: PodRuntime;
  readonly #clock: Clock;
  readonly #fleet: string;
  readonly #links: LinkReader;
  #checked: ReadonlyMap<string, Checked> = new Map();

  constructor({ runtime, clock, fleet }: PodLinksOptions) {
    this.#runtime = runtime;
    this.#clock = clock;
    this.#fleet = fleet;
    this.#links = new LinkReader(fleet);
  }

  /**
   * Attaches the pods of `links`, and detaches all others.
   *
   * @throws {FleetError} as `PodRuntime.sandboxes`; `EXEC_FAILED` if the fleet namespace cannot be read or a link cannot
   *   be removed.
   */
  async sync(links: readonly PodLink[], signal: AbortSignal): Promise<PodLinksResult> {
    const sandboxes = new Map((await this.#runtime.sandboxes(signal)).map((it) => [it.podUid, it]));
    const pass = { signal, sandboxes, ...(await this.#readFleet(signal)) };
    await this.#removeOthers(links, pass);

    const problems = new Map<string, string>();
    const checked = new Map<string, Checked>();
    const ensured: [PodLink, PodSandbox][] = [];
    let rechecks = RECHECKS_PER_PASS;
    for (const link of links) {
      const sandbox = sandboxes.get(link.podUID);
      if (sandbox === undefined) continue;
      try {
        const last = await this.#lastCheck(link, sandbox, pass);
        const isOld = last !== undefined && last.atMs + RECHECK_MS <= this.#clock.monotonic();
        if (last !== undefined && !(isOld && rechecks-- > 0)) checked.set(link.podUID, last);
        else if (await this.#ensure(link, sandbox, signal)) ensured.push([link, sandbox]);
      } catch (error) {
        signal.throwIfAborted();
        problems.set(link.podUID, messageOf(error));
      }
    }
    const after = ensured.length === 0 ? pass : await this.#readFleet(signal);
    for (const [link, sandbox] of ensured)
      checked.set(link.podUID, { key: await keyOf(link, sandbox, after), atMs: this.#clock.monotonic() });
    this.#checked = checked;
    return { attached: new Set(checked.keys()), problems };
  }

  async #readFleet(signal: AbortSignal): Promise<FleetDevices> {
    const devices = await this.#links.links(signal);
    return {
      devices: devices.filter((it) => isVethName(it.device)),
      fleetInode: await netnsInode(this.#fleet),
    };
  }

  /** Undefined if the link has not been checked as it is now. */
  async #lastCheck(link: PodLink, sandbox: PodSandbox, pass: FleetDevices): Promise<Checked | undefined> {
    const last = this.#checked.get(link.podUID);
    return last?.key === (await keyOf(link, sandbox, pass)) ? last : undefined;
  }

  /** Returns whether the pod still runs and has its link. */
  async #ensure(link: PodLink, sandbox: PodSandbox, signal: AbortSignal): Promise<boolean> {
    using netns = await this.#runtime.openNetns(sandbox, signal);
    if (netns === undefined) return false;
    await attachPod(link, { fleet: this.#fleet, pod: netns.path, signal });
    return true;
  }

  /** Also those of pods that an earlier agent attached. */
  async #removeOthers(links: readonly PodLink[], { signal, sandboxes, devices }: Pass): Promise<void> {
    const wanted = new Set(links.map((it) => vethName(it.podUID)));
    const running = new Map([...sandboxes.values()].map((it) => [vethName(it.podUid), it]));
    for (const { device } of devices) {
      if (wanted.has(device)) continue;
      const sandbox = running.get(device);
      using netns = sandbox && (await this.#runtime.openNetns(sandbox, signal));
      if (sandbox === undefined || netns === undefined)
        await deletePodDevice(device, { fleet: this.#fleet, signal });
      else await detachPod(sandbox.podUid, { fleet: this.#fleet, pod: netns.path, signal });
    }
  }
}

/** All by which a link is still the one that was checked. */
async function keyOf(
  link: PodLink,
  sandbox: PodSandbox,
  { devices, fleetInode }: FleetDevices,
): Promise<string> {
  const device = devices.find((it) => it.device === vethName(link.podUID));
  const podInode = sandbox.netns === undefined ? undefined : await netnsInode(sandbox.netns);
  return JSON.stringify([link, sandbox.id, podInode, fleetInode, device]);
}
