import { expect, it } from "vitest";
import { linkLine, namespaceLines } from "./build.ts";
import { labLayout } from "./layout.ts";
import { planNetwork } from "./network.ts";
import { DEFAULT_SPEC, planTopology } from "./topology.ts";

it("the network of a lab with one member of two nodes, as lines for ip -batch", async () => {
  const spec = { ...DEFAULT_SPEC, name: "demo", members: 1, nodes: 2 };
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
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("goldens/network.batch");
});
