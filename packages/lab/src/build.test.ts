import { expect, it } from "vitest";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { linkLine, namespaceLines } from "./build.ts";
import { labLayout } from "./layout.ts";
import { NAT_TABLE, natTable } from "./nat.ts";
import { planNetwork } from "./network.ts";
import { DEFAULT_SPEC, type LabSpec, planTopology } from "./topology.ts";

function networkLines(shape: Partial<LabSpec>): string {
  const spec = { ...DEFAULT_SPEC, name: "demo", ...shape };
  const layout = labLayout("/run/fairlead", spec.name);
  const plan = planNetwork(planTopology(spec, 64));
  const lines = [
    "# links",
    ...plan.links.map((it) => linkLine(it, layout)),
    ...plan.configured.flatMap((it) => [
      `\n# ${it.netns === undefined ? "the machine" : `namespace ${it.netns}`}`,
      ...namespaceLines(it, layout),
    ]),
  ];
  return `${lines.join("\n")}\n`;
}

it("the network of a lab with one member of two nodes, as lines for ip -batch", async () => {
  const lines = networkLines({ members: 1, nodes: 2 });
  await expect(lines).toMatchFileSnapshot("goldens/network.batch");
});

it("the network of a lab with two members behind NAT, as lines for ip -batch", async () => {
  const lines = networkLines({ topology: "nat", members: 2, nodes: 1 });
  await expect(lines).toMatchFileSnapshot("goldens/network-nat.batch");
});

it.each(["friendly", "random"] as const)("the rules of a %s NAT", async (kind) => {
  const topology = planTopology({ ...DEFAULT_SPEC, topology: "nat" }, 64);
  const script = renderScript(NAT_TABLE, diffTable(undefined, natTable(topology, kind)));
  await expect(script).toMatchFileSnapshot(`goldens/nat-${kind}.nft`);
});
