import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  BASE_PORT,
  createRelayWorld,
  type Family,
  RELAY,
  type RelayWorld,
  type RunningRelay,
  type TestGateway,
} from "./relay-world.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

/** As WireGuard's data begins; anything else may follow. */
function data(text: string): Buffer {
  return Buffer.concat([Buffer.from([4, 0, 0, 0]), Buffer.from(text)]);
}

describeOnKernel("a relay between gateways behind NATs that choose ports by chance", () => {
  let world: RelayWorld;
  beforeAll(async () => {
    world = await createRelayWorld();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** Sends from one gateway to another, and expects it there, from the port of the sender. */
  async function expectForwarded(
    from: TestGateway,
    to: TestGateway,
    text: string,
    families: readonly [Family, Family],
  ): Promise<void> {
    const payload = data(text);
    from.peer.send(31_820, { host: RELAY[families[0]], port: BASE_PORT + to.index }, payload);
    const arrival = await to.peer.next((it) => it.payload.equals(payload));
    expect(arrival).toMatchObject({ at: 31_820, address: RELAY[families[1]], port: BASE_PORT + from.index });
  }

  describe.each(["kernel", "userspace"] as const)("that forwards in the %s", (mode) => {
    const [a, b] = ["a", "b"] as const;
    let relay: RunningRelay;
    beforeAll(async () => {
      relay = await world.startRelay("--forward", mode);
    });
    afterAll(() => relay.kill("SIGTERM"));

    it.each([
      ["v4", "v4"],
      ["v6", "v6"],
      ["v4", "v6"],
    ] as const)("carries datagrams both ways (%s, %s)", async (first, second) => {
      const [one, two] = [world.gateway(a), world.gateway(b)];
      const seen = await one.register(two.index, { family: first });
      expect(seen.address).toBe(first === "v4" ? "203.0.1.2" : "2001:db8:11::2");
      await two.register(one.index, { family: second });
      await expectForwarded(one, two, `${mode} ${first} there`, [first, second]);
      await expectForwarded(two, one, `${mode} ${first} back`, [second, first]);
    });
  });
});
