import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { buildNetwork, lowerLink, raiseLink } from "@fairlead/lab/build.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { chooseBlock } from "@fairlead/lab/machine.ts";
import { quoteWord } from "@fairlead/lab/images/quote.ts";
import { LAB_VARIABLE } from "@fairlead/lab/processes.ts";
import { FABRIC_NETNS, nodeNetns } from "@fairlead/lab/places.ts";
import { removeLab } from "@fairlead/lab/teardown.ts";
import { DEFAULT_SPEC, type LabTopology, planTopology } from "@fairlead/lab/topology.ts";
import { createNetns, deleteNetns, inNetns, netnsInode } from "@fairlead/os/netns/netns.ts";
import { type MachineSnapshot, takeSnapshot } from "./machine-snapshot.ts";

const isRoot = process.getuid?.() === 0;
const signal = new AbortController().signal;

describe.skipIf(!isRoot)("the network of a lab (needs root)", () => {
  const stateRoot = mkdtempSync(join(tmpdir(), "fairlead-test-"));
  const layout = labLayout(stateRoot, "t-net");
  let before: MachineSnapshot;
  let topology: LabTopology;

  beforeAll(async () => {
    before = await takeSnapshot(layout.root);
    topology = planTopology(
      { ...DEFAULT_SPEC, name: "t-net", members: 2 },
      await chooseBlock("t-net", [], signal),
    );
    await buildNetwork(topology, layout, signal);
  });

  afterAll(async () => {
    await removeLab(layout, { hostLink: topology.host.link, clock: systemClock }, signal);
    expect(await takeSnapshot(layout.root)).toEqual(before);
    rmSync(stateRoot, { recursive: true, force: true });
  });

  async function canReach(from: string | undefined, address: string): Promise<boolean> {
    const args = ["-c", "1", "-W", "1", address];
    const line = from === undefined ? { command: "ping", args } : inNetns(layout.netnsOf(from), "ping", args);
    return (await exec(line.command, line.args, { allowFailure: true })).exitCode === 0;
  }
  const node = (cluster: number, at: number) => {
    const found = topology.clusters[cluster]?.nodes[at];
    if (found === undefined) throw new Error("no such node");
    return found;
  };

  it("lets nodes of different clusters reach each other in both families", async () => {
    const from = nodeNetns(node(1, 0));
    expect(await canReach(from, node(2, 1).address.v4)).toBe(true);
    expect(await canReach(from, node(2, 1).address.v6)).toBe(true);
  });

  it("lets the machine reach every API server's address", async () => {
    for (const cluster of topology.clusters) {
      expect(await canReach(undefined, cluster.api.v4)).toBe(true);
      expect(await canReach(undefined, cluster.api.v6)).toBe(true);
    }
  });

  it("lets nothing in the lab open a connection to the machine", async () => {
    expect(await canReach(nodeNetns(node(1, 0)), topology.host.machine.v4)).toBe(false);
    expect(await canReach(nodeNetns(node(1, 0)), topology.host.machine.v6)).toBe(false);
  });

  it("changes nothing when it is built again", async () => {
    const routes = async () => (await exec("ip", ["route", "show"])).stdout;
    const first = await routes();
    await buildNetwork(topology, layout, signal);
    expect(await routes()).toBe(first);
    expect(await canReach(nodeNetns(node(1, 0)), node(2, 0).address.v4)).toBe(true);
  });

  it("gives a node its link again if the kernel removes the former one while it is looked at", async () => {
    const lost = node(1, 0);
    using defer = new DisposableStack();
    const bin = mkdtempSync(join(tmpdir(), "fairlead-test-"));
    const path = process.env["PATH"] ?? "";
    // As if the kernel had ended the former namespace just before.
    const script = [
      "#!/bin/sh",
      `PATH=${quoteWord(path)}`,
      'if [ "$*" != "-batch -" ]; then exec ip "$@"; fi',
      "lines=$(cat)",
      'case "$lines" in "link del"*) echo "$lines" | ip -batch -; touch "$0.done" ;; esac',
      'echo "$lines" | ip -batch -',
    ];
    try {
      writeFileSync(join(bin, "ip"), `${script.join("\n")}\n`, { mode: 0o755 });
      // The file that is open keeps the namespace, and both ends of the link.
      const file = openSync(layout.netnsOf(nodeNetns(lost)), "r");
      defer.defer(() => closeSync(file));
      await exec("umount", ["--lazy", "--", layout.netnsOf(nodeNetns(lost))]);
      process.env["PATH"] = `${bin}:${path}`;
      await buildNetwork(topology, layout, signal);
    } finally {
      process.env["PATH"] = path;
    }
    expect(existsSync(join(bin, "ip.done"))).toBe(true);
    rmSync(bin, { recursive: true });
    expect(await canReach(nodeNetns(lost), node(2, 0).address.v4)).toBe(true);
  });

  it("stays when a lab of the same name in another folder is taken down", async () => {
    const other = labLayout(join(stateRoot, "other"), "t-net");
    await removeLab(other, { hostLink: topology.host.link, clock: systemClock }, signal);
    expect(await canReach(undefined, topology.clusters[0]?.api.v4 ?? "")).toBe(true);
  });

  it("is taken down though namespaces of pods come and go while it looks", async () => {
    const busy = labLayout(join(stateRoot, "busy"), "t-busy");
    const [going, coming] = ["going", "coming"].map((it) => `${busy.node("n")}/pods/${it}/netns`);
    if (going === undefined || coming === undefined) throw new Error("unreachable");
    const startIn = async (path: string): Promise<void> => {
      await createNetns(path, signal);
      const { command, args } = inNetns(path, "sleep", ["600"]);
      const inside = start(command, args);
      const inode = await netnsInode(path);
      await expect.poll(() => netnsInode(`/proc/${inside.pid}/ns/net`)).toBe(inode);
    };
    await startIn(going);
    let hasChanged = false;
    const clock: Clock = {
      ...systemClock,
      after: (delayMs, callback) => {
        const change = async (): Promise<void> => {
          if (!hasChanged) {
            hasChanged = true;
            await deleteNetns(going, signal);
            await startIn(coming);
          }
          callback();
        };
        return systemClock.after(delayMs, () => void change());
      },
    };
    const removed = await removeLab(busy, { hostLink: "t-busy-none", clock }, signal);
    expect(removed).toEqual({ processes: 2, namespaces: 2, mounts: 1 });
  });

  it("is taken down with the namespaces and the processes that programs on its nodes started", async () => {
    const other = labLayout(join(stateRoot, "agents"), "t-agents");
    const [place, fleet] = [other.netnsOf("node"), join(other.node("node"), "node", "fleet")];
    for (const path of [place, fleet]) await createNetns(path, signal);
    const link = ["link", "add", "fl-host", "type", "veth", "peer", "name", "up", "netns", fleet];
    const { command, args } = inNetns(place, "ip", link);
    await exec(command, args);
    // As wireguard-go: in mounts of its own, and in no session of the lab's.
    const line = inNetns(place, "unshare", ["--mount", "sleep", "600"]);
    const daemon = start(line.command, line.args, { detached: true, env: { [LAB_VARIABLE]: other.root } });
    const inode = await netnsInode(place);
    await expect.poll(() => netnsInode(`/proc/${daemon.pid}/ns/net`)).toBe(inode);
    const ended = new Promise((resolve) => daemon.once("exit", resolve));
    const removed = await removeLab(other, { hostLink: "t-agents-none", clock: systemClock }, signal);
    expect(removed).toEqual({ processes: 1, namespaces: 2, mounts: 2 });
    await ended;
  });

  it("cuts a cluster off when its link goes down, and brings back all of it with the link", async () => {
    const link = { netns: FABRIC_NETNS, device: topology.clusters[2]?.link ?? "" };
    await lowerLink(layout, link, signal);
    expect(await canReach(nodeNetns(node(1, 0)), node(2, 0).address.v4)).toBe(false);
    await raiseLink(topology, layout, link, signal);
    expect(await canReach(nodeNetns(node(1, 0)), node(2, 0).address.v4)).toBe(true);
    expect(await canReach(nodeNetns(node(1, 0)), node(2, 1).address.v6)).toBe(true);
  });
});
