/**
 * `npm run demo`: brings the lab up, applies the manifests of `examples/` as a user would, and prints what happens. Ends
 * with code 0 only if every step succeeded. With topology nat, members have the same addresses and tunnels to each other.
 * `npm run demo -- mesh` tells another story: of a profile, a global Service and a network policy. `npm run demo -- fleet`: of placements,
 * staged runs and upgrades.
 *
 *   npm run demo [-- mesh | fleet] [-- --topology nat] [-- --down] [-- --name NAME]
 */
import { parseArgs } from "node:util";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { untilInterrupted } from "@fairlead/fairlead/lab/context.ts";
import { inOwnNamespace } from "@fairlead/fairlead/lab/user-namespace.ts";
import { type Demo, fairlead, root } from "./demo/cluster.ts";
import {
  applyExamples,
  showClusters,
  showExports,
  showLoadBalancer,
  showRequestsByName,
} from "./demo/serving.ts";
import { showFailure, showScaling } from "./demo/changing.ts";
import { showDirectPaths, showGatewayDeath, showTunnels } from "./demo/network.ts";
import { FLEET_LAB, showFleet } from "./demo/fleet.ts";
import { MESH_LAB, showMesh } from "./demo/mesh.ts";
import { chapter, say, title } from "./demo/story.ts";

const { values: flags, positionals: stories } = parseArgs({
  allowPositionals: true,
  options: {
    down: { type: "boolean", default: false },
    name: { type: "string", default: "demo" },
    topology: { type: "string", default: "flat" },
  },
});

async function report(demo: Demo): Promise<void> {
  chapter("The clusters");
  await showClusters(demo);
  const isNat = demo.topology === "nat";
  if (isNat) {
    chapter("The tunnels between clusters with the same addresses, at first by a relay");
    await showTunnels(demo);
  }
  chapter("A service that two clusters export and a third imports");
  await applyExamples(demo);
  await showExports(demo);
  chapter("Ten requests from a pod in member-3, by name");
  await showRequestsByName(demo);
  let address: string | undefined;
  if (isNat) {
    chapter("Tunnels become direct where the NATs allow it");
    await showDirectPaths(demo);
  } else {
    chapter("Ten requests from this machine, through the load balancer");
    address = await showLoadBalancer(demo);
  }
  chapter("An exporter scales up");
  await showScaling(demo);
  chapter("An exporting cluster fails and recovers");
  await showFailure(demo);
  if (isNat) {
    chapter("A gateway dies under a running download");
    await showGatewayDeath(demo);
  }
  if (flags.down) return;
  chapter("What to try next");
  showWhatNext(demo, address);
}

/** The flag that selects this lab in commands. */
function nameFlag(lab: string): string {
  return lab === "demo" ? "" : ` --name ${lab}`;
}

function showWhatNext(demo: Demo, address: string | undefined): void {
  const name = nameFlag(demo.lab);
  say(`export KUBECONFIG=${demo.kubeconfig}`);
  say("contexts       hub member-1 member-2 member-3");
  if (address !== undefined) say(`load balancer  http://${address}/`);
  say(`logs           ${demo.kubeconfig.replace(/kubeconfig$/, "logs/")}`);
  if (process.env["FAIRLEAD_USERNS"] !== undefined) {
    say();
    say(`The lab runs in a user namespace; its addresses are reachable only inside it:`);
    say(`  ./bin/fairlead lab shell${name}`);
  }
  say();
  say("Three things to try:");
  if (address !== undefined) say(`  curl http://${address}/`);
  else say("  ./bin/fairlead verify --hub-context hub");
  say(`  ./bin/fairlead status --hub-context hub -o wide${address === undefined ? " --paths" : ""}`);
  say(`  ./bin/fairlead lab kill${name} member-1-node-1`);
  say();
  say(`Remove the lab: ./bin/fairlead lab down${name}`);
}

interface Story {
  readonly title: string;
  /** Flags of `fairlead lab up`. */
  readonly flags: readonly string[];
  readonly report: (demo: Demo) => Promise<void>;
}

const ONE_SERVICE = "Fairlead: one service, many clusters";
const STORIES: ReadonlyMap<string, Story> = new Map([
  ["flat", { title: ONE_SERVICE, flags: [], report }],
  ["nat", { title: ONE_SERVICE, flags: ["--topology", "nat"], report }],
  [
    "fleet",
    { title: "Fairlead: workloads and upgrades of many clusters", flags: FLEET_LAB, report: showFleet },
  ],
  ["mesh", { title: "Fairlead: which clusters share a network", flags: MESH_LAB, report: showMesh }],
]);

/** By the topology, or by its name. */
function storyOf(): Story {
  if (!["flat", "nat"].includes(flags.topology))
    throw new FleetError("OPTION_INVALID", `--topology must be flat or nat, got ${flags.topology}`);
  const [name = flags.topology, ...more] = stories;
  const found = more.length === 0 ? STORIES.get(name) : undefined;
  if (found !== undefined) return found;
  throw new FleetError("OPTION_INVALID", `the stories are ${[...STORIES.keys()].join(", ")}`);
}

async function main(): Promise<void> {
  const story = storyOf();
  if (await inOwnNamespace("start it")) return;
  const signal = untilInterrupted();
  title(story.title);
  say();
  const up = ["lab", "up", "--name", flags.name, ...story.flags];
  say(`$ fairlead ${up.join(" ")}`);
  say((await fairlead(up, signal)).trimEnd());
  const kubeconfig = (await fairlead(["lab", "kubeconfig", "--name", flags.name], signal)).trim();
  await story.report({
    lab: flags.name,
    topology: story.flags.includes("nat") ? "nat" : "flat",
    kubeconfig,
    kubectl: findKubectl(`${root}node_modules/.tools`),
    signal,
  });
  if (flags.down) {
    say();
    say(`$ fairlead lab down --name ${flags.name}`);
    say((await fairlead(["lab", "down", "--name", flags.name], signal)).trimEnd());
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`\nThe demo failed: ${messageOf(error)}\n`);
  process.stderr.write(
    `The lab stays up. Run the demo again, or remove the lab: ./bin/fairlead lab down${nameFlag(flags.name)}\n`,
  );
  process.exitCode = process.exitCode === 130 ? 130 : 1;
}
