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

  it("run no workload controllers, nodes or load balancers in the hub, which holds objects for members", () => {
    const programs = planPrograms(
      planTopology({ ...DEFAULT_SPEC, members: 2 }, 64),
      labLayout("/labs", "demo"),
    );
    const ofHub = programs.filter((it) => it.cluster === "hub").map((it) => it.args[0]);
    expect(new Set(ofHub)).toEqual(new Set(["apiserver", "hub"]));
    expect(programs.filter((it) => it.args[0] === "lab-controllers")).toHaveLength(2);
  });

  it("include those that its owner adds, on the nodes of members and at the hub, each with a credential of its own", async () => {
    const spec: LabSpec = {
      ...DEFAULT_SPEC,
      topology: "nat",
      members: 2,
      extras: [
        {
          command: "node",
          on: "nodes",
          user: "fairlead:node",
          args: ["--kubeconfig={kubeconfig}", "--node={node}", "{netns}", "{state}", "{cri}", "{other}"],
        },
        {
          command: "relay",
          on: "hub",
          user: "fairlead:relay",
          args: ["--kubeconfig", "{kubeconfig}", "--key", "{state}/relay.key", "{v4}", "{v6}"],
        },
      ],
    };
    const lines = (of: LabSpec): readonly string[] =>
      planPrograms(planTopology(of, 64), labLayout("/labs", "demo")).map(
        (it) => `${it.name} in ${it.netns}: ${it.args.join(" ")}`,
      );
    const without = new Set(lines({ ...spec, extras: [] }));
    const added = lines(spec).filter((it) => !without.has(it));
    await expect(`${added.join("\n")}\n`).toMatchFileSnapshot("goldens/extra-programs.txt");
    const bare = new Set(lines({ ...spec, bare: true, extras: [] }));
    expect(lines({ ...spec, bare: true }).filter((it) => !bare.has(it))).toEqual(added);
  });
});
