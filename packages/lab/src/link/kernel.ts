/** Gives links their conditions in the kernel: what is there already stays as it is. */

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { runIpLines } from "@fairlead/os/iproute/driver.ts";
import { setLink } from "@fairlead/os/iproute/lines.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import type { LabLayout } from "#layout.ts";
import type { LabTopology } from "#topology.ts";
import { DEFAULT_MTU } from "./conditions.ts";
import { type LabLink, LINK_TABLE, type LinkRef, linkTable, queueWords } from "./plan.ts";

/** MTU and queues of a link, and the delay that its wire follows. */
export async function applyDevices(
  topology: LabTopology,
  layout: LabLayout,
  link: LabLink,
  signal: AbortSignal,
): Promise<void> {
  const conditions = topology.conditions?.[link.name] ?? {};
  const file = layout.delayFile(link.name);
  mkdirSync(dirname(file), { recursive: true });
  replaceFileSync(file, String(conditions.delayMs ?? 0));
  const mtu = conditions.mtu ?? DEFAULT_MTU;
  for (const { netns, device } of link.ends) {
    await runIpLines([setLink(device, { mtu })], { netns: layout.netnsOf(netns), signal });
    await applyQueue(layout, { netns, device }, queueWords(conditions), signal);
  }
}

/** Drops and losses of a link, and whether its frames go by a wire. */
export async function applyTables(
  topology: LabTopology,
  layout: LabLayout,
  link: LabLink,
  signal: AbortSignal,
): Promise<void> {
  for (const { netns } of link.ends) {
    using nft = createNft({ netns: layout.netnsOf(netns) });
    const actual = await nft.read(LINK_TABLE, signal);
    await nft.apply(LINK_TABLE, diffTable(actual, linkTable(topology, netns)), signal);
  }
}

/** Queues that `applyQueue` makes; others are the kernel's. */
const OURS: ReadonlySet<string> = new Set(["tbf", "netem"]);

async function applyQueue(
  layout: LabLayout,
  end: LinkRef,
  words: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<void> {
  const place = ["dev", end.device, "root"];
  if (words !== undefined) {
    await tc(layout, end, ["qdisc", "replace", ...place, ...words], signal);
    return;
  }
  const shown = await tc(layout, end, ["-j", "qdisc", "show", "dev", end.device], signal);
  const queues = JSON.parse(shown) as readonly { readonly kind: string }[];
  if (queues.some((it) => OURS.has(it.kind))) await tc(layout, end, ["qdisc", "delete", ...place], signal);
}

/** Whether the kernel can delay packets itself. */
export async function hasNetem(layout: LabLayout, end: LinkRef, signal: AbortSignal): Promise<boolean> {
  try {
    await tc(layout, end, ["qdisc", "replace", "dev", end.device, "root", "netem", "delay", "0"], signal);
    return true;
  } catch (error) {
    if (Error.isError(error) && error.message.includes("qdisc kind is unknown")) return false;
    throw error;
  }
}

async function tc(
  layout: LabLayout,
  { netns, device }: LinkRef,
  args: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const line = inNetns(layout.netnsOf(netns), "tc", args);
  const { stdout, stderr, exitCode } = await exec(line.command, line.args, { signal, allowFailure: true });
  if (exitCode === 0) return stdout;
  throw new FleetError("EXEC_FAILED", `cannot set the queue of ${device} in ${netns}: ${stderr.trim()}`);
}
