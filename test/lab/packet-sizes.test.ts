/** Packets of every size around the MTU of a link, in both families and protocols, through tunnels and in a flat network. Full size only. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { ADDRESS_BLOCKS, GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { startLab, type TestLab } from "../support/lab-fixture.ts";
import { mcsExport, namespace, nodePod, programScript, service } from "../support/lab-manifests.ts";
import { until } from "../support/waiting.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const PORT = 7007;
const SERVER = { namespace: "work", name: "server" };
const CLIENT = { namespace: "work", name: "client" };
/** From the least MTU of IPv6 (RFC 8200) to more than that of Ethernet. Unit: bytes. */
const SIZES = { least: 1270, greatest: 1510 };
const TIMEOUT_MS = 300_000;
const program = (name: string): URL => new URL(`../support/size-${name}.ts`, import.meta.url);

let lab: TestLab;

async function addressesOf(topology: string): Promise<readonly string[]> {
  const client = await lab.client("member-2");
  if (topology === "flat") {
    const { status } = await client.get(PODS, objectKey(SERVER.namespace, SERVER.name));
    return (status?.podIPs ?? []).map((it) => it.ip);
  }
  const { uid } = (await client.get(PODS, objectKey(SERVER.namespace, SERVER.name))).metadata;
  const found = await until(
    "the fleet addresses of the server",
    async () =>
      (await client.list(ADDRESS_BLOCKS, { namespace: FLEET_SYSTEM_NAMESPACE })).items
        .flatMap((it) => it.status?.allocations ?? [])
        .find((it) => it.podUID === uid),
    (it) => it !== undefined,
  );
  return found === undefined ? [] : [found.ipv4, found.ipv6];
}

/**
 * Until all tunnels have the MTU that the link leaves: less 80 bytes of WireGuard over IPv6 or 60 over IPv4, in multiples of 16. Where fragments pass,
 * datagrams of WireGuard may be fragmented.
 */
async function untilKnown(mtu: number, dropsFragments: boolean): Promise<void> {
  const hub = await lab.client("hub");
  const most = dropsFragments ? Math.min(1408, Math.floor((mtu - 60) / 16) * 16) : 1408;
  const least = Math.min(1408, Math.floor((mtu - 80) / 16) * 16);
  await until(
    `tunnels over a link of ${mtu} bytes have an MTU of ${least} to ${most}`,
    async () => {
      const all = await Promise.all(
        ["member-1", "member-2"].map(async (it) => hub.list(GATEWAYS, { namespace: mailboxOf(it) })),
      );
      return all.flatMap((it) => it.items).flatMap((it) => it.status?.paths ?? []);
    },
    (paths) =>
      paths.length > 0 && paths.every((it) => it.mtu !== undefined && it.mtu <= most && it.mtu >= least),
    { timeoutMs: 90_000 },
  );
}

describeOnKernel("packets", () => {
  describe.each(["nat", "flat"])("in a lab with the topology %s", (topology) => {
    beforeAll(async () => {
      lab = await startLab({
        name: `t-size-${topology}`.slice(0, 12),
        members: 2,
        nodes: 2,
        flags: ["--topology", topology],
      });
      for (const member of ["member-1", "member-2"]) {
        await lab.apply(member, namespace("work"));
        await lab.kubectl(member, ["-n", "work", "wait", "--for=create", "serviceaccount/default"]);
      }
      await lab.apply("member-1", nodePod(CLIENT));
      const ports = (["UDP", "TCP"] as const).map((it) => ({
        name: it.toLowerCase(),
        protocol: it,
        port: PORT,
      }));
      await lab.apply(
        "member-2",
        nodePod(SERVER, programScript(program("server"), `${PORT}`)),
        service(SERVER, {}, { ports }),
        mcsExport(SERVER),
      );
      for (const member of ["member-1", "member-2"])
        await lab.kubectl(member, "-n work wait --for=condition=Ready pod --all --timeout=60s".split(" "));
    }, TIMEOUT_MS);
    afterAll(() => lab?.[Symbol.asyncDispose]());

    it.each([1500, 1492, 1460, 1420, 1400, 1380, 1360])(
      "of every size arrive whole over a link of %d bytes, also where fragments of UDP are dropped",
      { timeout: TIMEOUT_MS },
      async (mtu) => {
        const addresses = await addressesOf(topology);
        expect(addresses).toHaveLength(2);
        for (const drops of topology === "flat" ? [[]] : [[], ["--drop-udp-fragments"]]) {
          await lab.lab("link", ["--mtu", `${mtu}`, ...drops, "member-1"]);
          if (topology === "nat") await untilKnown(mtu, drops.length > 0);
          const words = [addresses.join(), PORT, SIZES.least, SIZES.greatest].map(String);
          const script = programScript(program("client"), ...words);
          const whole = await until(
            "the first answer",
            () => lab.inPod("member-1", `${CLIENT.namespace}/${CLIENT.name}`, script),
            (it) => it.trim() !== "",
          );
          const none = { datagrams: [], writes: [] };
          expect({ mtu, drops, lost: JSON.parse(whole) as unknown }).toEqual({
            mtu,
            drops,
            lost: Object.fromEntries(addresses.map((it) => [it, none])),
          });
          await lab.lab("link", ["--reset", "member-1"]);
        }
      },
    );
  });
});
