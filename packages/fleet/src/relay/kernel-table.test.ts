import * as fc from "fast-check";
import { expect, it } from "vitest";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createFakeNft } from "@fairlead/os/nft/fake.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import {
  type KernelRegistration,
  registrationOps,
  registrationsIn,
  relayTableName,
  renderRelayTable,
} from "./kernel-table.ts";
import { legId } from "./registration-table.ts";

const BASE = 21_000;
const NAME = relayTableName(BASE);
const OPTIONS = { basePort: BASE, families: ["IPv4", "IPv6"] as const };
const ONE: KernelRegistration = {
  from: 0,
  to: 1,
  parity: 1,
  source: { address: "192.0.2.1", port: 4001 },
  via: "0.0.0.0",
  local: "198.51.100.2",
};
const TWO: KernelRegistration = {
  from: 1,
  to: 0,
  parity: 1,
  source: { address: "2001:db8::1", port: 4002 },
  via: "::",
  local: "2001:db8:100::2",
};

it.each([
  ["both-families", { ...OPTIONS, legLimit: 12_500_000, tlsPort: 443 }],
  ["one-family", { ...OPTIONS, families: ["IPv4"] as const }],
])("the table of a relay with two gateways: %s", async (name, options) => {
  const script = renderScript(NAME, diffTable(undefined, renderRelayTable(options, [ONE, TWO])));
  await expect(script).toMatchFileSnapshot(`goldens/${name}.nft`);
});

it("changes of registrations in any order lead to the table of the last ones, which tells them again", async () => {
  const address = fc.constantFrom("192.0.2.1", "192.0.2.2", "2001:db8::1");
  const registration = fc
    .record({
      from: fc.nat(2),
      to: fc.nat(2),
      parity: fc.nat(1),
      address,
      port: fc.integer({ min: 1, max: 9 }),
    })
    .map(({ address: at, port, ...leg }): KernelRegistration => {
      const [via, local] = at.includes(":") ? ["::", "2001:db8:100::2"] : ["0.0.0.0", "198.51.100.2"];
      return { ...leg, source: { address: at, port: ((1000 * legId(leg)) % 60_000) + port }, via, local };
    });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(registration, fc.boolean()), { maxLength: 12 }), async (steps) => {
      const nft = createFakeNft();
      const signal = AbortSignal.timeout(5000);
      await nft.apply(NAME, diffTable(undefined, renderRelayTable(OPTIONS, [])), signal);
      const held = new Map<number, KernelRegistration>();
      for (const [it, isGone] of steps) {
        const before = held.get(legId(it));
        await nft.apply(NAME, registrationOps(before, isGone ? undefined : it, BASE), signal);
        if (isGone) held.delete(legId(it));
        else held.set(legId(it), it);
      }
      const read = await nft.read(NAME, signal);
      expect(diffTable(read, renderRelayTable(OPTIONS, held.values()))).toEqual([]);
      const found = registrationsIn(read, BASE).map((it) => [legId(it), it] as const);
      expect(new Map(found)).toEqual(new Map([...held].map(([id, { via: _via, ...rest }]) => [id, rest])));
    }),
    { numRuns: 40 },
  );
});
