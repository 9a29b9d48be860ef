/** The chapters about the tunnels between members with equal addresses: their paths, and the death of a gateway. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { stateRoot } from "@fairlead/fairlead/lab/context.ts";
import { arePathsHealthy, type ClusterPath, summarizePaths } from "@fairlead/fleet/cli/fleet/paths.ts";
import { readFleet } from "@fairlead/fleet/cli/fleet/status.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { requireState } from "@fairlead/lab/state.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { type Demo, fairlead, kubectl, root, streamKubectl } from "./cluster.ts";
import { IMPORTER } from "./serving.ts";
import { say } from "./story.ts";

/** Unit: milliseconds; a busy machine must not fail the demo. */
const PATHS_TIMEOUT_MS = 60_000;

/** Members have the same addresses, and a tunnel to each other, which begins at the relay. */
export async function showTunnels(demo: Demo): Promise<void> {
  for (const member of ["member-1", "member-2", IMPORTER]) {
    const path = "-o=jsonpath={.items[*].spec.podCIDR}";
    say(
      `${member} has pods in ${(await kubectl(demo, member, ["get", "nodes", path])).replace(" ", " and ")}`,
    );
  }
  await untilPaths(demo, (paths) =>
    paths.every((it) => it.tunnels.length > 0 && it.tunnels.every(({ path }) => path !== "none")),
  );
  await showPaths(demo);
}

export async function showDirectPaths(demo: Demo): Promise<void> {
  const isDirect = (it: ClusterPath): boolean => it.tunnels.some(({ path }) => path === "direct");
  await untilPaths(demo, (paths) => arePathsHealthy(paths) && paths.filter(isDirect).length >= 2);
  await showPaths(demo);
  say(
    `The NATs of member-1 and member-2 keep ports, so their gateways find each other. That of ${IMPORTER} uses another port for each destination: its tunnels stay at the relay.`,
  );
}

async function showPaths(demo: Demo): Promise<void> {
  say("$ fairlead status --hub-context hub --paths");
  const flags = ["--hub-kubeconfig", demo.kubeconfig, "--hub-context", "hub", "--paths"];
  say((await fairlead(["status", ...flags], demo.signal)).trimEnd());
}

async function untilPaths(demo: Demo, isEnough: (paths: readonly ClusterPath[]) => boolean): Promise<void> {
  await using hub = connect(await loadKubeconfig(demo.kubeconfig, { context: "hub" }));
  const limited = AbortSignal.any([demo.signal, AbortSignal.timeout(PATHS_TIMEOUT_MS)]);
  while (!isEnough(summarizePaths(await readFleet(hub, limited), systemClock.now())))
    await delay(systemClock, 250, limited);
}

const SERVER = "member-1";
const DOWNLOAD = "download.work.svc.clusterset.local";
/** Lines before the gateway dies, and after it. 50 are sent in a second. */
const LINES = { before: 50, after: 200 };
/** A pause that is longer fails the demo. Unit: milliseconds. */
const LONGEST_PAUSE_MS = 15_000;

interface Line {
  readonly number: number;
  readonly atMs: number;
}

/** A pod downloads from another member while the gateway that carries it dies. */
export async function showGatewayDeath(demo: Demo): Promise<void> {
  const manifest = `${root}scripts/demo/download.yaml`;
  say(`$ kubectl --context ${SERVER} apply -f scripts/demo/download.yaml`);
  await kubectl(demo, SERVER, ["apply", "-f", manifest]);
  say(`$ kubectl --context ${IMPORTER} -n work exec client -- socat -u TCP:${DOWNLOAD}:9000 -`);
  const lines: Line[] = [];
  // A name without endpoints is refused. A connection that ends begins again with line 1, which the check below finds.
  const script = `until socat -u TCP:${DOWNLOAD}:9000,connect-timeout=2 - 2>/dev/null; do sleep 0.2; done`;
  const stream = streamKubectl(
    demo,
    IMPORTER,
    ["-n", "work", "exec", "client", "--", "sh", "-c", script],
    (line) => lines.push({ number: Number.parseInt(line, 10), atMs: systemClock.monotonic() }),
  );
  stream.done.catch(() => {});
  try {
    await untilLines(lines, LINES.before, demo.signal);
    const gateway = await busiestGateway(demo);
    const from = lines.length - 1;
    await killGateway(gateway);
    await untilLines(lines, from + LINES.after, demo.signal);
    showPause(lines, from);
  } finally {
    stream.stop();
    await stream.done.catch(() => {});
    await kubectl(demo, SERVER, ["delete", "-f", manifest, "--wait=false"]);
  }
}

async function untilLines(lines: readonly Line[], count: number, signal: AbortSignal): Promise<void> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(PATHS_TIMEOUT_MS)]);
  while (lines.length < count) await delay(systemClock, 20, limited);
}

function showPause(lines: readonly Line[], from: number): void {
  const pauses = lines.slice(from).map(({ atMs }, at) => atMs - (lines[from + at - 1]?.atMs ?? atMs));
  const longest = Math.max(...pauses);
  const wrong = lines.findIndex(({ number }, at) => number !== at + 1);
  if (wrong !== -1)
    throw new FleetError(
      "LAB_INVALID",
      `the download was interrupted: line ${lines[wrong]?.number} came after line ${wrong}`,
    );
  if (longest > LONGEST_PAUSE_MS)
    throw new FleetError("LAB_INVALID", `the download paused for ${(longest / 1000).toFixed(1)} s`);
  say(
    `the same connection continued through another gateway after a pause of ${(longest / 1000).toFixed(1)} s; ${lines.length} lines arrived, none is missing`,
  );
}

interface GatewayNode {
  readonly node: string;
  /** Files of the namespaces of the node and of `fleet` on it. */
  readonly netns: string;
  readonly fleet: string;
}

/** The node of the server's member that sends most through its tunnels. */
async function busiestGateway(demo: Demo): Promise<GatewayNode> {
  const layout = labLayout(stateRoot(), demo.lab);
  const cluster = requireState(layout, demo.lab).topology.clusters.find((it) => it.name === SERVER);
  const gateways = (cluster?.nodes ?? []).map((node) => ({
    node: node.name,
    netns: layout.netnsOf(nodeNetns(node)),
    fleet: join(layout.node(node.name), "node", "fleet"),
  }));
  const sent = (): Promise<readonly number[]> => Promise.all(gateways.map((it) => sentBytes(it.fleet)));
  const before = await sent();
  await delay(systemClock, 400, demo.signal);
  const after = await sent();
  const rates = after.map((it, at) => it - (before[at] ?? 0));
  const busiest = gateways[rates.indexOf(Math.max(...rates))];
  if (busiest === undefined) throw new FleetError("LAB_INVALID", `${SERVER} has no nodes`);
  return busiest;
}

async function sentBytes(fleet: string): Promise<number> {
  return (await tunnelDevices(fleet)).reduce((sum, it) => sum + (it.stats64?.tx.bytes ?? 0), 0);
}

interface LinkStats {
  readonly ifname: string;
  readonly stats64?: { readonly tx: { readonly bytes: number } };
}

async function tunnelDevices(fleet: string): Promise<readonly LinkStats[]> {
  const line = inNetns(fleet, "ip", ["-json", "-stats", "link", "show"]);
  const links = JSON.parse((await exec(line.command, line.args)).stdout) as readonly LinkStats[];
  return links.filter((it) => it.ifname.startsWith("fl-wg"));
}

/** Ends the processes of the gateway's tunnels. Where the kernel has WireGuard there are none: then it deletes the devices. */
async function killGateway({ node, netns, fleet }: GatewayNode): Promise<void> {
  const pids = ((await pidsByNetns([netns])).get(netns) ?? []).filter((it) =>
    readFileSync(`/proc/${it}/cmdline`, "utf8").startsWith("wireguard-go"),
  );
  if (pids.length > 0) say(`$ kill -9 ${pids.join(" ")}   # WireGuard of gateway ${node}, which carries it`);
  else say(`the tunnels of gateway ${node}, which carries it, are deleted`);
  for (const pid of pids) process.kill(pid, "SIGKILL");
  if (pids.length > 0) return;
  for (const { ifname } of await tunnelDevices(fleet)) {
    const line = inNetns(fleet, "ip", ["link", "delete", ifname]);
    await exec(line.command, line.args);
  }
}
