import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ConfigMap, Pod, Secret, Volume } from "@fairlead/kube/api/core/v1/types.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { isNetns } from "@fairlead/os/netns/netns.ts";
import { setSysctls } from "../network/sysctls.ts";
import { createPodLink, deletePodLink, hasPodLink } from "../network/pod-network.ts";
import { configNames, tokenWishes } from "../pod/config-names.ts";
import type { PodPlace } from "../pod/downward.ts";
import { ConfigError } from "../pod/environment.ts";
import { fsGroupOf } from "../pod/identity.ts";
import { mountMemory, unmountMemory } from "../pod/memory-volumes.ts";
import { writeVolume } from "../pod/volume-writer.ts";
import { planVolume, type VolumeInput } from "../pod/volumes.ts";
import type { NodeContext } from "./context.ts";
import { HeldObjects } from "./object-cache.ts";
import { type PodRecord, writePodRecord } from "./pod-record.ts";
import { PodTokens } from "./tokens.ts";

/** What the containers of one pod share: addresses, network, volumes, and the objects that it reads. */
export class PodSandbox {
  readonly folder: string;
  readonly volumes: string;
  readonly configMaps: HeldObjects<ConfigMap>;
  readonly secrets: HeldObjects<Secret>;
  readonly #context: NodeContext;
  readonly #tokens: PodTokens;
  readonly #netns: string;
  #record: PodRecord;
  #hasNetwork = false;

  constructor(context: NodeContext, record: PodRecord, onChange: () => void) {
    this.#context = context;
    this.#record = record;
    this.folder = join(context.runtime.pods, record.uid);
    this.volumes = join(this.folder, "volumes");
    this.#netns = join(this.folder, "netns");
    const holder = { namespace: record.namespace, uid: record.uid, onChange };
    this.configMaps = new HeldObjects(context.configMaps, holder);
    this.secrets = new HeldObjects(context.secrets, holder);
    this.#tokens = new PodTokens(context.client, context.deps.clock);
  }

  get hasNetwork(): boolean {
    return this.#hasNetwork;
  }

  place(pod: Pod): PodPlace {
    const { nodeIPs } = this.#context;
    return { hostIPs: nodeIPs, podIPs: isOnHostNetwork(pod) ? nodeIPs : this.#record.addresses };
  }

  netnsOf(pod: Pod): string | undefined {
    return isOnHostNetwork(pod) ? undefined : this.#netns;
  }

  /**
   * Makes the pod's network, or finds it as an earlier kubelet left it. Pods keep their addresses.
   *
   * @throws {NoAddressError} while there is no address for it.
   */
  async ensureNetwork(pod: Pod, signal: AbortSignal): Promise<void> {
    if (this.#hasNetwork) return;
    if (isOnHostNetwork(pod)) writePodRecord(this.#context.runtime.pods, this.#record);
    else await this.#ensureLink(pod, signal);
    this.#hasNetwork = true;
  }

  /**
   * Brings the pod's volumes to what its objects say now.
   *
   * @returns When a token is to be renewed. Unit: milliseconds since the Unix epoch.
   * @throws {ConfigError} when something is missing.
   */
  async ensureVolumes(pod: Pod, signal: AbortSignal): Promise<number | undefined> {
    const names = configNames(pod);
    await Promise.all([
      this.configMaps.hold(names.configMaps, signal),
      this.secrets.hold(names.secrets, signal),
    ]);
    const dueAtMs = await this.#ensureTokens(pod, signal);
    const input = {
      pod,
      place: this.place(pod),
      sources: {
        configMap: (name: string) => this.configMaps.get(name),
        secret: (name: string) => this.secrets.get(name),
      },
      token: (wish: Parameters<PodTokens["get"]>[0]) => this.#tokens.get(wish),
      capacity: this.#context.capacity,
    };
    for (const volume of pod.spec?.volumes ?? []) await this.#ensureVolume(volume, input, signal);
    return dueAtMs;
  }

  async #ensureVolume(volume: Volume, input: VolumeInput, signal: AbortSignal): Promise<void> {
    const folder = join(this.volumes, volume.name);
    try {
      const plan = planVolume(volume, input);
      if (plan.kind === "empty" && plan.inMemory && !existsSync(folder))
        await mountMemory(folder, plan, signal);
      writeVolume(folder, plan, fsGroupOf(input.pod));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      throw new ConfigError(`MountVolume.SetUp failed for volume "${volume.name}" : ${error.message}`);
    }
  }

  /** Whether it holds anything that others could use. */
  get isHeld(): boolean {
    return this.#hasNetwork || this.#record.addresses.length > 0;
  }

  /** Releases the resources of a terminated pod: network, addresses, volumes, watches. */
  async release(signal: AbortSignal): Promise<void> {
    await Promise.all([this.configMaps.release(), this.secrets.release()]);
    await deletePodLink({ podUid: this.#record.uid, netns: this.#netns }, signal);
    await unmountMemory(this.volumes, signal);
    rmSync(this.volumes, { recursive: true, force: true });
    // Start the rest period before the record drops them.
    this.#context.addresses.release(this.#record.addresses);
    this.#record = { ...this.#record, addresses: [] };
    writePodRecord(this.#context.runtime.pods, this.#record);
    this.#hasNetwork = false;
  }

  /** Removes everything. The pod's containers have ended and were removed. */
  async remove(signal: AbortSignal): Promise<void> {
    await this.release(signal);
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #ensureLink(pod: Pod, signal: AbortSignal): Promise<void> {
    const { addresses, runtime, deps } = this.#context;
    const { uid } = this.#record;
    if (this.#record.addresses.length === 0) {
      this.#record = { ...this.#record, addresses: addresses.allocate() };
      writePodRecord(runtime.pods, this.#record);
    } else if ((await isNetns(this.#netns)) && (await hasPodLink(uid, signal))) return;
    // Containers in a namespace that lost its link would be cut off for ever: they start again in the new one.
    for (const run of runtime.ofPod(uid)) runtime.signal(run, "SIGKILL");
    await createPodLink({ podUid: uid, netns: this.#netns, addresses: this.#record.addresses }, signal);
    await setSysctls(this.#netns, pod, signal);
    deps.log.debug("the pod's network is set up", {
      pod: this.#record.name,
      addresses: this.#record.addresses,
    });
  }

  /** A token that cannot be renewed yet is tried again soon; one that is missing stops the pod from starting. */
  async #ensureTokens(pod: Pod, signal: AbortSignal): Promise<number | undefined> {
    const wishes = tokenWishes(pod);
    try {
      return await this.#tokens.ensure(pod, wishes, signal);
    } catch (error) {
      if (wishes.some((wish) => this.#tokens.get(wish) === undefined)) throw error;
      const { clock, log } = this.#context.deps;
      log.warn("a service account token could not be renewed", {
        pod: this.#record.name,
        error: messageOf(error),
      });
      return clock.now() + TOKEN_RETRY_MS;
    }
  }
}

const TOKEN_RETRY_MS = 10_000;

function isOnHostNetwork(pod: Pod): boolean {
  return pod.spec?.hostNetwork === true;
}
