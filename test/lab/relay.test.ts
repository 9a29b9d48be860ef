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

    it("carries datagrams of every length that a tunnel sends", async () => {
      const [one, two] = [world.gateway(a), world.gateway(b)];
      await one.register(two.index);
      await two.register(one.index);
      for (const length of [0, 1, 44, 64, 1408])
        await expectForwarded(one, two, `${mode} ${"x".repeat(length)}`, ["v4", "v4"]);
    });

    it("follows a gateway that registers from another port", async () => {
      const [one, two] = [world.gateway(a), world.gateway(b)];
      await one.register(two.index, { from: 31_822 });
      const payload = data(`${mode} to the new port`);
      two.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + one.index }, payload);
      expect(await one.peer.next((it) => it.payload.equals(payload))).toMatchObject({ at: 31_822 });
      await one.register(two.index);
    });

    it("forwards nothing from where no gateway is registered, nor to another gateway than the one registered for", async () => {
      const [one, two, other] = [world.gateway(a), world.gateway(b), world.gateway("c")];
      const stray = data(`${mode} stray`);
      other.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + two.index }, stray);
      one.peer.send(31_822, { host: RELAY.v4, port: BASE_PORT + two.index }, stray);
      one.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + other.index }, stray);
      // Registered at one side only.
      await other.register(two.index);
      other.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + two.index }, stray);
      await expectForwarded(one, two, `${mode} after the strays`, ["v4", "v4"]);
      for (const it of [two, other])
        expect(it.peer.arrivals.some(({ payload }) => payload.equals(stray))).toBe(false);
    });
  });

  it("shares nothing with another relay: a gateway that is registered at both is reached through either", async () => {
    const [one, two] = [world.gateway("a"), world.gateway("b")];
    const [first, second] = [
      await world.startRelay("--forward", "kernel"),
      await world.startRelay("--forward", "userspace", "--base-port", "23000"),
    ];
    for (const basePort of [BASE_PORT, 23_000]) {
      await one.register(two.index, { basePort });
      await two.register(one.index, { basePort });
    }
    await expectForwarded(one, two, "by the first", ["v4", "v4"]);
    await first.kill("SIGTERM");
    const payload = data("by the second");
    one.peer.send(31_820, { host: RELAY.v4, port: 23_000 + two.index }, payload);
    expect(await two.peer.next((it) => it.payload.equals(payload))).toMatchObject({
      port: 23_000 + one.index,
    });
    await second.kill("SIGTERM");
  });

  it("forwards on while its process is gone, and adopts what the kernel has when it is back", async () => {
    const [one, two] = [world.gateway("a"), world.gateway("b")];
    const first = await world.startRelay("--forward", "kernel");
    await one.register(two.index);
    await two.register(one.index);
    await first.kill("SIGKILL");
    await expectForwarded(one, two, "while it is gone", ["v4", "v4"]);
    const second = await world.startRelay("--forward", "kernel");
    await expectForwarded(two, one, "when it is back", ["v4", "v4"]);
    await second.kill("SIGTERM");
    await expectForwarded(one, two, "when it has ended", ["v4", "v4"]);
    // One that forwards itself has no use for the table.
    const third = await world.startRelay("--forward", "userspace");
    const lost = data("no gateway has registered");
    one.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + two.index }, lost);
    await one.register(two.index);
    await two.register(one.index);
    await expectForwarded(one, two, "by its sockets", ["v4", "v4"]);
    expect(two.peer.arrivals.some(({ payload }) => payload.equals(lost))).toBe(false);
    await third.kill("SIGTERM");
  });

  it.each(["kernel", "userspace"] as const)("drops what exceeds the limit of a pair (%s)", async (mode) => {
    const [one, two] = [world.gateway("a"), world.gateway("b")];
    // 125 kB/s, and 64 KiB at once.
    const relay = await world.startRelay("--forward", mode, "--pair-limit", "1");
    await one.register(two.index);
    await two.register(one.index);
    const payload = data(`${mode} ${"x".repeat(1190)}`);
    for (let at = 0; at < 1000; at++)
      one.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + two.index }, payload);
    await one.register(two.index);
    // A burst of 53 of them, and what the time allows.
    await two.peer.next((it) => it.payload.equals(payload));
    const count = (): number => two.peer.arrivals.filter((it) => it.payload.equals(payload)).length;
    expect(count()).toBeLessThan(700);
    // The other direction has a limit of its own.
    await expectForwarded(two, one, `${mode} the other way`, ["v4", "v4"]);
    await relay.kill("SIGTERM");
  });
});
