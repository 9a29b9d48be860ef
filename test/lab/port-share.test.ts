import { createSecretKey } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { encodeControl } from "@fairlead/fleet/dataplane/control/datagram.ts";
import { PORT_SHARE_TABLE, portShareTable } from "@fairlead/fleet/dataplane/control/port-share.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { ipBatch, startUdpPeer, type UdpPeer } from "./udp-world.ts";

const WIREGUARD = 31_820;
const AGENT = 41_820;
const PROBE = encodeControl(
  { kind: "probe", from: 1, to: 2, epoch: 1, nonce: new Uint8Array(16) },
  createSecretKey(Buffer.alloc(32)),
);
/** As WireGuard's data begins; anything else may follow. */
const DATA = Buffer.concat([Buffer.from([4, 0, 0, 0]), Buffer.alloc(44, 9)]);

/** Two nodes on one wire, each with WireGuard, an agent and the rules; a third port of the second node is a plain socket. */
describeOnKernel("agents that share the ports of WireGuard", () => {
  const fixture = netnsFixture();
  const stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "fairlead-keys-"));
  stack.defer(() => rmSync(folder, { recursive: true }));
  const hosts = { v4: ["192.0.2.1", "192.0.2.2"], v6: ["2001:db8::1", "2001:db8::2"] } as const;
  let nodes: readonly string[];
  let agents: readonly UdpPeer[];
  const table = portShareTable([{ wireGuard: WIREGUARD, agent: AGENT }]);

  beforeAll(async () => {
    stack.use(fixture);
    const signal = AbortSignal.timeout(60_000);
    nodes = [await fixture.netns("a"), await fixture.netns("b")];
    for (const node of nodes) await writeSysctls(node, STATIC_IPV6_SYSCTLS, signal);
    await ipBatch(nodes[0]!, [`link add eth0 type veth peer name eth0 netns ${nodes[1]}`]);
    for (const [at, node] of nodes.entries()) {
      const nft = createNft({ netns: node });
      await nft.apply(PORT_SHARE_TABLE, diffTable(undefined, table), signal);
      // As on a machine whose firewall admits answers only, and the tunnel's port.
      await run(node, "nft", ["-f", "-"], FIREWALL);
      nft[Symbol.dispose]();
      await ipBatch(node, [
        `addr add ${hosts.v4[at]}/24 dev eth0`,
        `addr add ${hosts.v6[at]}/64 dev eth0 nodad`,
        "link set eth0 up",
      ]);
    }
    agents = [
      stack.use(await startUdpPeer(nodes[0]!, [AGENT])),
      stack.use(await startUdpPeer(nodes[1]!, [AGENT, 5000])),
    ];
  }, 60_000);
  afterAll(() => stack.disposeAsync());

  it.each(["v4", "v6"] as const)("reach each other through them (%s)", async (family) => {
    const [a, b] = agents as [UdpPeer, UdpPeer];
    a.send(AGENT, { host: hosts[family][1], port: WIREGUARD }, PROBE);
    expect(await b.next()).toMatchObject({
      at: AGENT,
      address: hosts[family][0],
      port: WIREGUARD,
      payload: PROBE,
    });
    b.send(AGENT, { host: hosts[family][0], port: WIREGUARD }, PROBE);
    expect(await a.next()).toMatchObject({ at: AGENT, address: hosts[family][1], port: WIREGUARD });
  });

  it("receive neither WireGuard's datagrams, nor those of a wrong length, nor those sent to their own port", async () => {
    const [a, b] = agents as [UdpPeer, UdpPeer];
    const host = hosts.v4[1];
    a.send(AGENT, { host, port: WIREGUARD }, DATA);
    a.send(AGENT, { host, port: WIREGUARD }, PROBE.subarray(1));
    a.send(AGENT, { host, port: WIREGUARD }, Buffer.concat([PROBE, PROBE]));
    a.send(AGENT, { host, port: AGENT }, PROBE);
    a.send(AGENT, { host, port: 5000 }, DATA);
    a.send(AGENT, { host, port: WIREGUARD }, PROBE);
    // Port 5000 shows that datagrams arrive in order, and from which port they are sent.
    expect(await b.next()).toMatchObject({ at: 5000, port: WIREGUARD, payload: DATA });
    expect(await b.next()).toMatchObject({ at: AGENT, payload: PROBE });
  });

  it("leave WireGuard's own traffic alone, while it flows", async () => {
    if (!existsSync("/usr/bin/wireguard-go")) throw new Error("wireguard-go is not installed");
    const keys = [generateKeyPair(), generateKeyPair()] as const;
    for (const [at, node] of nodes.entries()) {
      const name = `fl-wg-share${at}`;
      const other = 1 - at;
      const daemon = inNetns(node, "wireguard-go", ["--foreground", name]);
      const child = start(daemon.command, daemon.args, { stdio: "ignore" });
      stack.defer(() => {
        child.kill("SIGTERM");
        rmSync(`/var/run/wireguard/${name}.sock`, { force: true });
      });
      await expect.poll(() => existsSync(`/var/run/wireguard/${name}.sock`), { timeout: 10_000 }).toBe(true);
      const peer = ["peer", keys[other]?.publicKey ?? "", "allowed-ips", "0.0.0.0/0,::/0"];
      const endpoint = ["endpoint", `[${hosts.v6[other]}]:${WIREGUARD}`];
      const key = join(folder, name);
      writeFileSync(key, keys[at]?.privateKey ?? "", { mode: 0o600 });
      const own = ["listen-port", String(WIREGUARD), "private-key", key];
      await run(node, "wg", ["set", name, ...own, ...peer, ...endpoint]);
      await ipBatch(node, [`addr add 10.9.0.${at + 1}/24 dev ${name}`, `link set ${name} up`]);
    }
    const [a, b] = agents as [UdpPeer, UdpPeer];
    const ping = run(nodes[0]!, "ping", ["-c", "200", "-i", "0.005", "-W", "2", "-q", "10.9.0.2"]);
    let answered = 0;
    for (; answered < 20; answered++) {
      a.send(AGENT, { host: hosts.v6[1], port: WIREGUARD }, PROBE);
      expect(await b.next()).toMatchObject({ at: AGENT, port: WIREGUARD });
      b.send(AGENT, { host: hosts.v6[0], port: WIREGUARD }, PROBE);
      expect(await a.next()).toMatchObject({ at: AGENT, port: WIREGUARD });
    }
    expect(await ping).toContain("200 received, 0% packet loss");
    expect(b.arrivals.every((it) => it.payload.equals(PROBE) || it.at === 5000)).toBe(true);
  });
});

const FIREWALL = `
table inet firewall {
  chain input {
    type filter hook input priority 0; policy drop;
    iifname "lo" accept
    meta l4proto ipv6-icmp accept
    iifname "fl-wg-share*" accept
    ct state established,related accept
    udp dport { ${WIREGUARD}, ${AGENT}, 5000 } accept
  }
}
`;

async function run(netns: string, program: string, args: readonly string[], input?: string): Promise<string> {
  const line = inNetns(netns, program, args);
  const options = input === undefined ? {} : { input };
  return (await exec(line.command, line.args, { timeoutMs: 30_000, ...options })).stdout;
}
