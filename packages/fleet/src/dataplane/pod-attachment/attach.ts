import { FleetError } from "@fairlead/base/errors.ts";
import { applyNetwork, deleteDevice, readLinks, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { addVethPair, setLink } from "@fairlead/os/iproute/lines.ts";
import type { Link } from "@fairlead/os/iproute/parse.ts";
import { writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { fleetSide, type LinkSide, POD_DEVICE, type PodLink, podSide, RULE_PRIORITIES } from "./link.ts";
import { vethName } from "./names.ts";

/** The two namespaces of a link. */
export interface LinkPlace {
  /** File of the fleet namespace. */
  readonly fleet: string;
  /** File of the pod's namespace, which stays the same one while this works: the path of an `OpenNetns`. */
  readonly pod: string;
  readonly signal: AbortSignal;
}

/**
 * Brings the link of a running pod to what is desired; changes only differences, and may be the first to run after a
 * crash at any step of another. Returns whether anything was changed.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if the pod has a device `eth-fleet` that is not ours, `EXEC_FAILED`.
 */
export async function attachPod(link: PodLink, place: LinkPlace): Promise<boolean> {
  const [fleet, pod] = [fleetSide(link), podSide(link)];
  const ends = await ensurePair({ fleet, pod, mtu: link.mtu }, place);
  const changes = [
    await configure(fleet, ends.fleet, { netns: place.fleet, mtu: link.mtu, signal: place.signal }),
    await configure(pod, ends.pod, { netns: place.pod, mtu: link.mtu, signal: place.signal }),
  ];
  return ends.isNew || changes.includes(true);
}

/** Removes the link of a running pod, and the rules that lead to it. An absent link is not an error. */
export async function detachPod(podUID: string, place: LinkPlace): Promise<void> {
  const { fleet, pod, signal } = place;
  await applyNetwork(
    [],
    { addresses: [], routes: [], neighbours: [] },
    { netns: pod, signal, rulePriorities: RULE_PRIORITIES },
  );
  await deletePodDevice(vethName(podUID), { fleet, signal });
}

/** Removes a device in the fleet namespace that leads to a pod, and with it the other end. */
export async function deletePodDevice(device: string, place: Omit<LinkPlace, "pod">): Promise<void> {
  await deleteDevice(device, { netns: place.fleet, signal: place.signal });
}

interface Ends {
  readonly fleet: Link | undefined;
  readonly pod: Link | undefined;
  readonly isNew: boolean;
}

interface Pair {
  readonly fleet: LinkSide;
  readonly pod: LinkSide;
  readonly mtu: number;
}

/** Finds both ends of the pair, or makes it. An end without the other is one of a pair that was made for another namespace. */
async function ensurePair({ fleet, pod, mtu }: Pair, place: LinkPlace): Promise<Ends> {
  const { signal } = place;
  const [fleetLinks, podLinks] = await Promise.all([
    readLinks({ netns: place.fleet, signal }),
    readLinks({ netns: place.pod, signal }),
  ]);
  const [here, there] = [find(fleetLinks, fleet.device), find(podLinks, pod.device)];
  if (there !== undefined && there.hardwareAddress !== pod.hardwareAddress)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `cannot attach the pod: it has a device ${POD_DEVICE} that Fairlead did not make; remove it, or exclude the pod with the label fairlead.dev/attach=false`,
    );
  if (here !== undefined && there !== undefined && there.peerIndex === here.index)
    return { fleet: here, pod: there, isNew: false };
  if (there !== undefined) await deleteDevice(pod.device, { netns: place.pod, signal });
  if (here !== undefined) await deleteDevice(fleet.device, { netns: place.fleet, signal });
  const line = addVethPair(
    { device: fleet.device, hardwareAddress: fleet.hardwareAddress, mtu },
    { device: pod.device, hardwareAddress: pod.hardwareAddress, mtu, netns: place.pod },
  );
  await runIpLines([line], { netns: place.fleet, signal });
  return { fleet: undefined, pod: undefined, isNew: true };
}

function find(links: readonly Link[], device: string): Link | undefined {
  return links.find((it) => it.device === device);
}

/** @param actual - Undefined for a device that was just made. */
async function configure(
  side: LinkSide,
  actual: Link | undefined,
  { netns, mtu, signal }: { readonly netns: string; readonly mtu: number; readonly signal: AbortSignal },
): Promise<boolean> {
  const { device, state, sysctls } = side;
  const options = {
    netns,
    signal,
    ...(state.rules === undefined ? {} : { rulePriorities: RULE_PRIORITIES }),
  };
  const isDown = actual?.isUp !== true;
  // A device that is up has its settings: it comes up last.
  if (isDown) {
    await runIpLines([setLink(device, { addressGeneration: "none" })], options);
    await writeSysctls(netns, sysctls, signal);
    await runIpLines([setLink(device, { up: true })], options);
  }
  const isResized = actual !== undefined && actual.mtu !== mtu;
  if (isResized) await runIpLines([setLink(device, { mtu })], options);
  const changed = await applyNetwork([device], state, options);
  return isDown || isResized || changed > 0;
}
