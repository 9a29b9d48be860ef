import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { changeOps, noteOps, recordOf } from "@fairlead/fleet/dataplane/service-proxy/changes.ts";
import { DesiredElements } from "@fairlead/fleet/dataplane/service-proxy/desired.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { planService } from "@fairlead/fleet/dataplane/service-proxy/plan.ts";
import { renderTable } from "@fairlead/fleet/dataplane/service-proxy/table.ts";
import { createNetns, deleteNetns } from "@fairlead/os/netns/netns.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { programChains, runInside } from "./proxy/chains.ts";

/**
 * Claims: programming a change of one Service costs the same however many Services there are; by netlink it costs less
 * than starting a process; and the layout of chains per Service that kube-proxy has costs more with each Service, because
 * the nft program reads all chains first.
 *
 * Two limits are taken in the same run: a process that does nothing (`/bin/true`) and an `nft` that changes nothing, in
 * the same namespace. Each Service has three endpoints. What is printed is the median.
 */
const SIZES = [100, 1000, 10_000] as const;
/** The other layout takes half a minute for 10 000 Services. */
const PEER_SIZES: ReadonlySet<number> = new Set([100, 1000]);
const ROUNDS = 21;
const ENDPOINTS = 3;

interface Figures {
  readonly services: number;
  readonly fullMs: number;
  readonly planMs: number;
  readonly execMs: number;
  readonly netlinkMs: number;
  readonly peerFullMs: number | undefined;
  readonly peerUpdateMs: number | undefined;
}

export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  const netns = join(folder, "node");
  const signal = AbortSignal.timeout(300_000);
  await createNetns(netns, signal);
  try {
    const idleMs = await medianOf(() => runInside(netns, "true", []));
    const emptyMs = await medianOf(() => runInside(netns, "nft", ["-f", "-"], "\n"));
    console.log(
      `limits: a process ${idleMs.toFixed(1)} ms, an nft that does nothing ${emptyMs.toFixed(1)} ms`,
    );
    const all: Figures[] = [];
    for (const services of SIZES) all.push(await measure(netns, services, signal));
    printFigures(all, emptyMs);
  } finally {
    await deleteNetns(netns, signal);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(netns: string, services: number, signal: AbortSignal): Promise<Figures> {
  const byNetlink = createNft({ netns });
  const byExec = createNft({ netns, loadLibC: async () => undefined });
  const desired = new DesiredElements();
  const planMs = await timed(async () => {
    for (let at = 0; at < services; at++) planInto(desired, at, 0);
    desired.takeChanged();
  });
  const table = renderTable(desired.elements);
  const fullMs = await timed(() => byExec.apply(PROXY_TABLE, diffTable(undefined, table), signal));
  const record = recordOf(table);
  let round = 0;
  // A change as it happens: one endpoint of one Service is replaced.
  const update = (nft: NftDriver) => async (): Promise<void> => {
    planInto(desired, Math.floor(services / 2), ++round);
    const ops = changeOps(record, desired.elements, desired.takeChanged());
    await nft.apply(PROXY_TABLE, ops, signal);
    noteOps(record, ops);
  };
  const execMs = await medianOf(update(byExec));
  const netlinkMs = await medianOf(update(byNetlink));
  const left = diffTable(await byExec.read(PROXY_TABLE, signal), renderTable(desired.elements));
  if (left.length > 0)
    throw new Error(`the kernel does not hold what was written: ${left.length} steps left`);
  await byExec.apply(PROXY_TABLE, [{ verb: "delete-table" }], signal);
  byNetlink[Symbol.dispose]();
  const peer = PEER_SIZES.has(services) ? await measurePeer(netns, services) : undefined;
  return {
    services,
    planMs,
    fullMs,
    execMs,
    netlinkMs,
    peerFullMs: peer?.fullMs,
    peerUpdateMs: peer?.updateMs,
  };
}

function planInto(desired: DesiredElements, number: number, round: number): void {
  const name = `service-${number}`;
  const service = {
    metadata: { name },
    spec: { type: "ClusterIP" as const, clusterIPs: [serviceAddress(number)], ports: [{ port: 80 }] },
  };
  const slice: EndpointSlice = {
    metadata: { name },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080 }],
    endpoints: endpointAddresses(number, round).map((address) => ({ addresses: [address] })),
  };
  desired.set(
    name,
    planService({ service, slices: [slice], node: { name: "node", zone: undefined, addresses: [] } }),
  );
}

function serviceAddress(number: number): string {
  return `10.96.${number >> 8}.${number & 255}`;
}

function endpointAddresses(number: number, round: number): readonly string[] {
  const at = (index: number): string => `10.${128 + index}.${number >> 8}.${number & 255}`;
  return [at(0), at(1), at(ENDPOINTS - 1 + (round % 2))];
}

/** The layout of kube-proxy. */
async function measurePeer(
  netns: string,
  services: number,
): Promise<{ readonly fullMs: number; readonly updateMs: number }> {
  const beganMs = performance.now();
  const peer = await programChains(netns, { services, serviceAddress, endpoints: endpointAddresses });
  const fullMs = performance.now() - beganMs;
  const updateMs = await medianOf(peer.update);
  await peer.remove();
  return { fullMs, updateMs };
}

async function timed(action: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await action();
  return performance.now() - began;
}

async function medianOf(action: () => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) times.push(await timed(action));
  return times.toSorted((a, b) => a - b)[ROUNDS >> 1] ?? 0;
}

function printFigures(all: readonly Figures[], emptyMs: number): void {
  const ms = (value: number | undefined): string =>
    value === undefined ? "-" : value.toFixed(value < 10 ? 2 : 0);
  console.log(
    "services  plan ms  full ms  update: exec ms  netlink ms  chains per Service: full ms  update ms",
  );
  for (const it of all) {
    const cells = [it.services, ms(it.planMs), ms(it.fullMs), ms(it.execMs), ms(it.netlinkMs)];
    const widths = [8, 7, 7, 15, 10, 27, 9];
    const row = [...cells, ms(it.peerFullMs), ms(it.peerUpdateMs)];
    console.log(row.map((cell, at) => String(cell).padStart(widths[at] ?? 0)).join("  "));
  }
  const first = all[0];
  const last = all[all.length - 1];
  if (first === undefined || last === undefined) return;
  const ratio = (value: number, of: number): string => (value / of).toFixed(2);
  console.log(
    `update by exec, of an nft that does nothing: ${ratio(last.execMs, emptyMs)} at ${last.services}`,
  );
  console.log(`update by netlink, of the same: ${ratio(last.netlinkMs, emptyMs)} at ${last.services}`);
  console.log(
    `update by netlink, ${last.services} Services to ${first.services}: ${ratio(last.netlinkMs, first.netlinkMs)}`,
  );
  for (const it of all) {
    if (it.peerUpdateMs === undefined || it.peerFullMs === undefined) continue;
    console.log(
      `chains per Service at ${it.services}, of maps: full ${ratio(it.peerFullMs, it.fullMs)}, update ${ratio(it.peerUpdateMs, it.execMs)} (exec), ${ratio(it.peerUpdateMs, it.netlinkMs)} (netlink)`,
    );
  }
}
