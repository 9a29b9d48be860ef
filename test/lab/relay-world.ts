import { type KeyObject, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { exec, start } from "@fairlead/base/exec.ts";
import { controlKey } from "@fairlead/fleet/dataplane/control/keys.ts";
import { generateKeyPair, publicKeyOf } from "@fairlead/os/wireguard/keys.ts";
import { RelayRegistration } from "@fairlead/fleet/dataplane/control/registration.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { netnsFixture } from "../support/netns-fixture.ts";
import { ipBatch, startUdpPeer, type UdpPeer } from "./udp-world.ts";

export const BASE_PORT = 21_000;
export const RELAY = { v4: "198.51.100.2", v6: "2001:db8:100::2" } as const;
export type Family = keyof typeof RELAY;
export const TLS_PORT = 443;
const EPOCH = 1;

type GatewayName = "a" | "b" | "c" | "d";

/** A gateway: its index, its namespace, and sockets that stand for those of its WireGuard devices. */
export interface TestGateway {
  readonly index: number;
  readonly peer: UdpPeer;
  /** Registers for another gateway from a local port, and returns the address that the relay saw. */
  register(
    other: number,
    options?: { readonly family?: Family; readonly from?: number; readonly basePort?: number },
  ): Promise<{ readonly address: string; readonly port: number }>;
  /** `controlKey` with the relay. */
  readonly key: KeyObject;
  /** The state of such a registration, for tests that send on their own. */
  registration(other: number): RelayRegistration;
}

/**
 * ```
 * a ── nat-a ──┐            a and b: 192.168.0.2, behind NATs that choose ports by chance
 * b ── nat-b ──┤            c and d: 203.0.3.2 and 203.0.4.2
 * c, d ────────┼── net ── relay
 * mallory ─────┘            203.0.5.2
 * ```
 *
 * IPv6 is routed.
 */
export interface RelayWorld extends AsyncDisposable {
  gateway(name: GatewayName): TestGateway;
  /** The namespace of a member of the picture. */
  netns(name: string): Promise<string>;
  startRelay(...flags: readonly string[]): Promise<RunningRelay>;
  /** Starts tunnels over TLS of a gateway to others. Resolves once all are registered. */
  startTunnels(name: GatewayName, others: readonly number[], wireGuardPort?: number): Promise<RunningTunnels>;
}

export interface RunningTunnels extends AsyncDisposable {
  /** The local port of each. */
  readonly ports: readonly number[];
  readonly pid: number;
}

export interface RunningRelay extends AsyncDisposable {
  /** Of the process itself. */
  readonly pid: number;
  kill(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** Ports of each gateway's sockets. */
const PORTS = [31_820, 31_822] as const;

export interface RelayWorldOptions {
  /** Local ports of the gateways' sockets. Default: those of WireGuard. */
  readonly ports?: readonly number[];
}

export async function createRelayWorld({ ports = PORTS }: RelayWorldOptions = {}): Promise<RelayWorld> {
  await using stack = new AsyncDisposableStack();
  const fixture = stack.use(netnsFixture());
  const folder = mkdtempSync(join(tmpdir(), "fairlead-relay-"));
  stack.defer(() => rmSync(folder, { recursive: true }));
  const signal = AbortSignal.timeout(60_000);
  const net = await fixture.netns("net");
  for (const name of ["net", "relay", "nat-a", "nat-b", "a", "b", "c", "d", "mallory"])
    await writeSysctls(await fixture.netns(name), { ...STATIC_IPV6_SYSCTLS, ...ROUTER_SYSCTLS }, signal);
  const link = async (at: string, inner: string, prefix: { readonly v4: string; readonly v6: string }) => {
    const [outer, to] = [await fixture.netns(at), await fixture.netns(inner)];
    await ipBatch(outer, [
      `link add name to-${inner} type veth peer name eth0 netns ${to}`,
      `link set to-${inner} up`,
      `addr add ${prefix.v4}.1/24 dev to-${inner}`,
      `addr add ${prefix.v6}::1/64 dev to-${inner} nodad`,
    ]);
    await ipBatch(to, [
      "link set eth0 up",
      `addr add ${prefix.v4}.2/24 dev eth0`,
      `addr add ${prefix.v6}::2/64 dev eth0 nodad`,
      `route add default via ${prefix.v4}.1`,
      `route add default via ${prefix.v6}::1`,
    ]);
  };
  await link("net", "relay", { v4: "198.51.100", v6: "2001:db8:100" });
  for (const [at, name] of ["nat-a", "nat-b", "c", "d", "mallory"].entries())
    await link("net", name, { v4: `203.0.${at + 1}`, v6: `2001:db8:${at + 1}` });
  for (const [at, name] of ["a", "b"].entries()) {
    const nat = `nat-${name}`;
    await link(nat, name, { v4: "192.168.0", v6: `2001:db8:${at + 11}` });
    await ipBatch(net, [`route add 2001:db8:${at + 11}::/64 via 2001:db8:${at + 1}::2`]);
    const masquerade = inNetns(await fixture.netns(nat), "nft", ["-f", "-"]);
    await exec(masquerade.command, masquerade.args, {
      input: `table ip nat { chain post { type nat hook postrouting priority 100; oifname "eth0" masquerade fully-random; }; }\n`,
    });
  }

  const relayKey = generateKeyPair().privateKey;
  writeFileSync(join(folder, "relay.key"), relayKey, { mode: 0o600 });
  const names = ["a", "b", "c", "d"] as const;
  const keys = names.map(() => generateKeyPair().privateKey);
  const gateways = names.map((name, index) => ({
    name,
    index,
    keys: [{ epoch: EPOCH, publicKey: publicKeyOf(keys[index] ?? "") }],
  }));
  writeFileSync(join(folder, "gateways.json"), JSON.stringify(gateways));
  const made = new Map<string, TestGateway>();
  for (const [index, name] of names.entries()) {
    const peer = stack.use(await startUdpPeer(await fixture.netns(name), ports));
    const key = controlKey("relay", keys[index] ?? "", publicKeyOf(relayKey));
    made.set(name, testGateway({ index, peer, key }));
  }
  const held = stack.move();
  const gateway = (name: string): TestGateway => {
    const found = made.get(name);
    if (found === undefined) throw new Error(`no gateway ${name}`);
    return found;
  };
  return {
    gateway,
    async startTunnels(name, others, wireGuardPort = PORTS[0]) {
      const { index, key } = gateway(name);
      const flows = others.map((to) => JSON.stringify({ from: index, to, epoch: EPOCH, wireGuardPort }));
      const script = fileURLToPath(new URL("tunnel-program.ts", import.meta.url));
      const own = [script, RELAY.v4, String(TLS_PORT), key.export().toString("base64"), ...flows];
      const line = inNetns(await fixture.netns(name), process.execPath, own);
      const child = start(line.command, line.args, { stdio: ["ignore", "pipe", "inherit"] });
      const ended = new Promise((resolve) => child.once("close", resolve));
      const kill = async (): Promise<void> => {
        child.kill("SIGKILL");
        await ended;
      };
      held.defer(kill);
      const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
      const { ports: local } = JSON.parse((await lines.next()).value as string) as {
        ports: readonly number[];
      };
      await lines.next();
      return { ports: local, pid: child.pid ?? 0, [Symbol.asyncDispose]: kill };
    },
    netns: (name) => fixture.netns(name),
    async startRelay(...flags) {
      const script = fileURLToPath(new URL("relay-program.ts", import.meta.url));
      const files = ["--key", join(folder, "relay.key"), "--gateways", join(folder, "gateways.json")];
      const own = [script, ...files, "--log-level", "warn", "--ready-fd", "3", ...flags];
      const line = inNetns(await fixture.netns("relay"), process.execPath, own);
      const child = start(line.command, line.args, { stdio: ["ignore", "inherit", "inherit", "pipe"] });
      const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
      await Promise.race([
        new Promise((resolve) => child.stdio[3]?.once("data", resolve)),
        ended.then(() => {
          throw new Error("the relay did not start");
        }),
      ]);
      const kill = async (by: "SIGTERM" | "SIGKILL"): Promise<void> => {
        child.kill(by);
        await ended;
      };
      const relay = { pid: child.pid ?? 0, kill, [Symbol.asyncDispose]: () => kill("SIGKILL") };
      held.use(relay);
      return relay;
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

function testGateway(of: { index: number; peer: UdpPeer; key: KeyObject }): TestGateway {
  const { index, peer, key } = of;
  const registrations = new Map<number, RelayRegistration>();
  const registration = (to: number): RelayRegistration => {
    const before = registrations.get(to);
    if (before !== undefined) return before;
    const nonce = (): Uint8Array => randomBytes(16);
    const made = new RelayRegistration({ from: index, to, epoch: EPOCH, key, nonce });
    registrations.set(to, made);
    return made;
  };
  return {
    index,
    peer,
    key,
    registration,
    async register(other, { family = "v4", from = PORTS[0], basePort = BASE_PORT } = {}) {
      const own = registration(other);
      const relay = { host: RELAY[family], port: basePort + other };
      let send = own.request();
      for (;;) {
        peer.send(from, relay, send);
        const arrival = await peer.next(
          (it) =>
            it.at === from && it.address === relay.host && it.port === relay.port && it.payload.length === 68,
        );
        const answer = own.receive(arrival.payload);
        if (answer === undefined) throw new Error("the relay's answer is not valid");
        if ("observed" in answer) return answer.observed;
        send = answer.send;
      }
    },
  };
}
