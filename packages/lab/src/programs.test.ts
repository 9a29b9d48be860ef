import { describe, expect, it } from "vitest";
import { labLayout } from "./layout.ts";
import { planPrograms } from "./programs.ts";
import { DEFAULT_SPEC, type LabSpec, planTopology } from "./topology.ts";

function argumentsOf(ipFamily: LabSpec["ipFamily"]): readonly string[] {
  const topology = planTopology({ ...DEFAULT_SPEC, ipFamily }, 64);
  return planPrograms(topology, labLayout("/labs", "demo")).flatMap((it) => it.args);
}

describe("the programs of a lab", () => {
  const isIpv6 = (text: string): boolean => /fd[0-9a-f]{2}:/.test(text);

  it("get addresses of both families, and of IPv4 alone in a lab with ipFamily ipv4", () => {
    expect(argumentsOf("dual").filter(isIpv6)).not.toEqual([]);
    expect(argumentsOf("ipv4").filter(isIpv6)).toEqual([]);
  });
});
