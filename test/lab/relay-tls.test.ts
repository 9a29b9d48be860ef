import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import {
  BASE_PORT,
  createRelayWorld,
  RELAY,
  type RelayWorld,
  type RunningRelay,
  TLS_PORT,
} from "./relay-world.ts";

/** As WireGuard's data begins; anything else may follow. */
function data(text: string): Buffer {
  return Buffer.concat([Buffer.from([4, 0, 0, 0]), Buffer.from(text)]);
}

describeOnKernel("a relay for gateways whose UDP is dropped", () => {
  let world: RelayWorld;
  beforeAll(async () => {
    world = await createRelayWorld();
    for (const name of ["nat-a", "nat-b"]) {
      const line = inNetns(await world.netns(name), "nft", ["-f", "-"]);
      await exec(line.command, line.args, {
        input:
          "table inet no-udp {\n chain forward { type filter hook forward priority 0; meta l4proto udp drop\n }\n }\n",
      });
    }
  });
  afterAll(() => world[Symbol.asyncDispose]());

  describe.each(["kernel", "userspace"] as const)("that forwards in the %s", (mode) => {
    let relay: RunningRelay;
    beforeAll(async () => {
      relay = await world.startRelay("--forward", mode, "--tls-port", String(TLS_PORT));
    });
    afterAll(() => relay.kill("SIGTERM"));

    it("carries their datagrams over TLS, to gateways that have UDP and to others that have not", async () => {
      const [a, b, c] = [world.gateway("a"), world.gateway("b"), world.gateway("c")];
      await using ofA = await world.startTunnels("a", [b.index, c.index]);
      await using ofB = await world.startTunnels("b", [a.index]);
      const [[toB = 0, toC = 0], [toA = 0]] = [ofA.ports, ofB.ports];
      await c.register(a.index);
      const exchange = async (text: string): Promise<void> => {
        for (const [from, port, to, at] of [
          [a, toB, b, toA],
          [b, toA, a, toB],
          [a, toC, c, undefined],
          [c, undefined, a, toC],
        ] as const) {
          const payload = data(`${mode} ${text} ${from.index} ${to.index}`);
          const target =
            port === undefined ? { host: RELAY.v4, port: BASE_PORT + to.index } : { host: "127.0.0.1", port };
          from.peer.send(31_820, target, payload);
          const source =
            at === undefined
              ? { address: RELAY.v4, port: BASE_PORT + from.index }
              : { address: "127.0.0.1", port: at };
          expect(await to.peer.next((it) => it.payload.equals(payload))).toMatchObject({
            at: 31_820,
            ...source,
          });
        }
      };
      await exchange("small");
      await exchange("x".repeat(1400));
    });
  });
});
