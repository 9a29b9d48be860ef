import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { type NetnsFixture, netnsFixture, prefixOf } from "../support/netns-fixture.ts";

interface Answer {
  /** Name of the pod that answered. */
  readonly from: string;
  /** The client's address as the pod saw it. */
  readonly sees: string;
  readonly error: string;
  readonly ms: number;
  /** Of a connection that stays open. */
  readonly handle: number;
}

/** A process in its own namespace. */
export interface Peer {
  readonly name: string;
  readonly v4: string;
  readonly v6: string;
  ask(verb: "tcp" | "udp" | "open" | "say" | "bye" | "half", to: Partial<Request>): Promise<Answer>;
}

interface Request {
  readonly host: string;
  readonly port: number;
  readonly from: number;
  readonly handle: number;
  readonly timeoutMs: number;
}

export const POD_CIDRS = ["10.244.0.0/16", "fd00:244::/64"] as const;

/**
 * One node with its pods, and a machine outside:
 *
 * ```
 * pod "x" 10.244.0.N/32 ── node ── outside 192.0.2.2/24
 * ```
 */
export interface ProxyWorld extends AsyncDisposable {
  readonly nodePrefix: readonly string[];
  readonly nodeNetns: string;
  pod(name: string, ports: readonly number[]): Promise<Peer>;
  /** Routes an address to a pod. Packets to an address that the pod does not have are dropped. */
  lead(address: string, to: Peer, has: "has it" | "has it not"): Promise<void>;
  outside(): Promise<Peer>;
}

export async function createProxyWorld(): Promise<ProxyWorld> {
  const fixture = netnsFixture();
  const node = await fixture.netns("node");
  const signal = AbortSignal.timeout(30_000);
  await writeSysctls(node, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
  const children: ChildProcess[] = [];
  let count = 0;
  return {
    nodePrefix: prefixOf(node),
    nodeNetns: node,
    async pod(name, ports) {
      const number = 10 + ++count;
      const at = { v4: `10.244.0.${number}`, v6: `fd00:244::${number}` };
      const netns = await addPod(fixture, node, { name, ...at });
      return startPeer({ name, ...at }, { netns, ports, children });
    },
    async lead(address, { name }, has) {
      const length = address.includes(":") ? 128 : 32;
      await ip(node, [`route replace ${address}/${length} dev p-${name}`, `neigh flush dev p-${name}`]);
      if (has === "has it")
        await ip(await fixture.netns(name), [
          `addr add ${address}/${length} dev eth0${length === 128 ? " nodad" : ""}`,
        ]);
    },
    async outside() {
      const netns = await fixture.netns("outside");
      await writeSysctls(netns, STATIC_IPV6_SYSCTLS, signal);
      await ip(node, [
        `link add name ext type veth peer name eth0 netns ${netns}`,
        "link set ext up",
        "addr add 192.0.2.1/24 dev ext",
        "addr add 2001:db8::1/64 dev ext nodad",
      ]);
      await ip(netns, [
        "link set eth0 up",
        "addr add 192.0.2.2/24 dev eth0",
        "addr add 2001:db8::2/64 dev eth0 nodad",
        "route add default via 192.0.2.1",
        "route add default via 2001:db8::1",
      ]);
      return startPeer(
        { name: "outside", v4: "192.0.2.2", v6: "2001:db8::2" },
        { netns, ports: [], children },
      );
    },
    async [Symbol.asyncDispose]() {
      for (const child of children) child.kill("SIGKILL");
      await fixture[Symbol.asyncDispose]();
    },
  };
}

export async function addPod(
  fixture: NetnsFixture,
  node: string,
  pod: { readonly name: string; readonly v4: string; readonly v6: string },
): Promise<string> {
  const netns = await fixture.netns(pod.name);
  const link = `p-${pod.name}`;
  await writeSysctls(netns, STATIC_IPV6_SYSCTLS, AbortSignal.timeout(10_000));
  await ip(node, [
    `link add name ${link} type veth peer name eth0 netns ${netns}`,
    `link set ${link} up`,
    `addr add 169.254.1.1/32 dev ${link} scope link`,
    `addr add fe80::1/64 dev ${link} nodad`,
    `route add ${pod.v4}/32 dev ${link} src 169.254.1.1`,
    `route add ${pod.v6}/128 dev ${link}`,
  ]);
  await ip(netns, [
    "link set eth0 up",
    `addr add ${pod.v4}/32 dev eth0`,
    `addr add ${pod.v6}/128 dev eth0 nodad`,
    "route add 169.254.1.1 dev eth0 scope link",
    "route add default via 169.254.1.1 dev eth0",
    "route add default via fe80::1 dev eth0",
  ]);
  return netns;
}

export async function ip(netns: string, lines: readonly string[]): Promise<void> {
  const { command, args } = inNetns(netns, "ip", ["-batch", "-"]);
  await exec(command, args, { input: `${lines.join("\n")}\n`, timeoutMs: 10_000 });
}

export async function startPeer(
  who: Pick<Peer, "name" | "v4" | "v6">,
  where: { readonly netns: string; readonly ports: readonly number[]; readonly children: ChildProcess[] },
): Promise<Peer> {
  const script = fileURLToPath(new URL("peer.ts", import.meta.url));
  const { command, args } = inNetns(where.netns, process.execPath, [
    script,
    who.name,
    ...where.ports.map(String),
  ]);
  const child = start(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  where.children.push(child);
  const waiting = new Map<number, (answer: Answer) => void>();
  const ready = Promise.withResolvers<void>();
  let listening = Math.max(1, where.ports.length);
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const reply = JSON.parse(line) as { id: number; text?: string; error?: string; ms?: number };
    if (reply.id === 0) {
      if (--listening === 0) ready.resolve();
      return;
    }
    const [from = "", sees = ""] = (reply.text ?? "").split(" ");
    const answer = { from, sees, error: reply.error ?? "", ms: reply.ms ?? 0, handle: reply.id };
    waiting.get(reply.id)?.(answer);
  });
  await ready.promise;
  let last = 0;
  return {
    ...who,
    ask(verb, to) {
      const id = ++last;
      const line = { id, verb, host: "", port: 0, from: 0, handle: 0, ...to };
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        child.stdin!.write(`${JSON.stringify(line)}\n`);
      });
    },
  };
}
