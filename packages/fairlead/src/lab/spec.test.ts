import { expect, it } from "vitest";
import { DEFAULT_SPEC, type LabSpec } from "@fairlead/lab/topology.ts";
import { PARALLEL_PROGRAMS, UPGRADE_PROGRAM } from "./parallel.ts";
import { type ShapeOptions, specOf } from "./spec.ts";

const DEFAULTS: ShapeOptions = {
  name: "x",
  members: "3",
  nodes: "2",
  topology: "flat",
  nat: "mixed",
  natUdpSeconds: "30",
  natUdpStreamSeconds: "180",
  ipFamily: "dual",
  leaseSeconds: "5",
  kubernetesVersion: "1.36",
  serviceImports: "automatic",
};

/** By the options that a user gives. */
function specBy(given: Partial<ShapeOptions>, found?: LabSpec): LabSpec {
  return specOf({ ...DEFAULTS, ...given }, (it) => it in given, found);
}

const OTHER: Partial<ShapeOptions> = {
  members: "2",
  nodes: "1",
  topology: "nat",
  nat: "random",
  natUdpSeconds: "40",
  natUdpStreamSeconds: "90",
  ipFamily: "ipv4",
  leaseSeconds: "7",
  kubernetesVersion: "1.35",
  serviceImports: "manual",
  bare: true,
  upgrades: true,
};

it("lab up makes a new lab by its options and their defaults", () => {
  expect(specBy({})).toEqual({ ...DEFAULT_SPEC, name: "x" });
  expect(specBy({ topology: "nat", upgrades: true }).extras).toEqual([...PARALLEL_PROGRAMS, UPGRADE_PROGRAM]);
});

it("lab up with a name alone leaves the shape of a lab that is there, whatever made it", () => {
  const found = specBy(OTHER);
  expect(specBy({}, found)).toEqual(found);
  expect(
    Object.entries(found).filter(
      ([field, value]) => field !== "name" && value === (DEFAULT_SPEC as never)[field],
    ),
  ).toEqual([]);
});

it("lab up with the options that made a lab has the same shape, and with another one another shape", () => {
  const found = specBy(OTHER);
  expect(specBy(OTHER, found)).toEqual(found);
  expect(specBy({ members: "4" }, found)).toEqual({ ...found, members: 4 });
  expect(specBy({ topology: "flat" }, found)).toEqual({ ...found, topology: "flat", extras: [] });
});
