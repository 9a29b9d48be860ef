import { expect, it } from "vitest";
import { type ClusterStatus, isLabWhole } from "./status.ts";

const count = { ready: 1, total: 1 };
const program = { name: "hub/hub", pid: 1, log: "/log" };
const cluster: ClusterStatus = {
  name: "hub",
  api: "10.0.0.1",
  link: "up",
  programs: [program],
  nodes: count,
  pods: count,
};
const isWhole = (it: ClusterStatus): boolean =>
  isLabWhole({ name: "x", members: 0, kubeconfig: "", killed: [], clusters: [it], conditions: {} });

it("a lab is whole if all programs run and all API servers answer", () => {
  expect(isWhole(cluster)).toBe(true);
  expect(isWhole({ ...cluster, programs: [{ ...program, pid: undefined }] })).toBe(false);
  expect(isWhole({ ...cluster, nodes: undefined, pods: undefined })).toBe(false);
});
