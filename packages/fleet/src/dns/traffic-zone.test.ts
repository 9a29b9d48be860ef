import { expect, it } from "vitest";
import { seededRng } from "@fairlead/base/rng.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import { CLASS, TYPE } from "@fairlead/dns/wire/types.ts";
import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { TrafficZone } from "./traffic-zone.ts";

const ORIGIN = "trafficmanager.clusterset.local.";

/** The addresses that many queries bring. */
function ask(targets: readonly TrafficTarget[], type: number): readonly string[] {
  const zone = new TrafficZone({
    origin: ORIGIN,
    negativeTtl: 5,
    serial: 1,
    isReady: () => true,
    rng: seededRng(7),
  });
  zone.put("shop", { metadata: { name: "shop" }, spec: { profile: "shop", ttl: 5, targets: [...targets] } });
  const found = Array.from({ length: 50 }, () =>
    zone.ask({ name: `shop.${ORIGIN}`, type, class: CLASS.IN }).answers.map(formatRecord),
  );
  return [...new Set(found.flat().map((text) => text.split(" ").at(-1) ?? ""))].toSorted();
}

const WELL = { name: "well", weight: 1, addresses: ["192.0.2.1"] };
const DEGRADED = { name: "degraded", weight: 1, degraded: true, addresses: ["192.0.2.2", "2001:db8::2"] };

it("a name is answered with the targets that are not degraded", () => {
  expect(ask([WELL, DEGRADED], TYPE.A)).toEqual(["192.0.2.1"]);
});

it("a name of which all targets are degraded is answered with all of them", () => {
  expect(ask([{ ...WELL, degraded: true }, DEGRADED], TYPE.A)).toEqual(["192.0.2.1", "192.0.2.2"]);
});

it("a client whose family has degraded targets alone gets these", () => {
  expect(ask([WELL, DEGRADED], TYPE.AAAA)).toEqual(["2001:db8::2"]);
});

it("a target whose addresses cannot be read takes no part, and the others answer", () => {
  expect(ask([{ ...WELL, addresses: ["nonsense"] }, DEGRADED], TYPE.A)).toEqual(["192.0.2.2"]);
});
