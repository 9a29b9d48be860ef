/**
 * `npm run demo`: brings the lab up, applies the manifests of `examples/` as a user would, and prints what happens. Ends
 * with code 0 only if every step succeeded.
 *
 *   npm run demo [-- --down] [-- --name NAME]
 */
import { parseArgs } from "node:util";
import { messageOf } from "@fairlead/base/errors.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { untilInterrupted } from "@fairlead/fairlead/lab/context.ts";
import { inOwnNamespace } from "@fairlead/fairlead/lab/user-namespace.ts";
import { type Demo, fairlead, root } from "./demo/cluster.ts";
import {
  applyExamples,
  tellClusters,
  tellExports,
  tellLoadBalancer,
  tellRequestsByName,
} from "./demo/serving.ts";
import { tellFailure, tellScaling } from "./demo/changing.ts";
import { chapter, say, title } from "./demo/story.ts";

const { values: flags } = parseArgs({
  options: { down: { type: "boolean", default: false }, name: { type: "string", default: "demo" } },
});

async function tell(demo: Demo): Promise<void> {
  chapter("The clusters");
  await tellClusters(demo);
  chapter("A service that two clusters export and a third imports");
  await applyExamples(demo);
  await tellExports(demo);
  chapter("Ten requests from a pod in member-3, by name");
  await tellRequestsByName(demo);
  chapter("Ten requests from this machine, through the load balancer");
  const address = await tellLoadBalancer(demo);
  chapter("An exporter scales up");
  await tellScaling(demo);
  chapter("An exporting cluster fails and recovers");
  await tellFailure(demo);
  if (flags.down) return;
  chapter("What to try next");
  tellWhatNext(demo, address);
}

/** The flag that selects this lab in commands. */
function nameFlag(lab: string): string {
  return lab === "demo" ? "" : ` --name ${lab}`;
}

function tellWhatNext(demo: Demo, address: string): void {
  const name = nameFlag(demo.lab);
  say(`export KUBECONFIG=${demo.kubeconfig}`);
  say("contexts       hub member-1 member-2 member-3");
  say(`load balancer  http://${address}/`);
  say(`logs           ${demo.kubeconfig.replace(/kubeconfig$/, "logs/")}`);
  if (process.env["FAIRLEAD_USERNS"] !== undefined) {
    say();
    say(`The lab runs in a user namespace; its addresses are reachable only inside it:`);
    say(`  ./bin/fairlead lab shell${name}`);
  }
  say();
  say("Three things to try:");
  say(`  curl http://${address}/`);
  say("  ./bin/fairlead status --hub-context hub -o wide");
  say(`  ./bin/fairlead lab kill${name} member-1-node-1`);
  say();
  say(`Remove the lab: ./bin/fairlead lab down${name}`);
}

async function main(): Promise<void> {
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  title("Fairlead: one service, many clusters");
  say();
  say(`$ fairlead lab up --name ${flags.name}`);
  say((await fairlead(["lab", "up", "--name", flags.name], signal)).trimEnd());
  const kubeconfig = (await fairlead(["lab", "kubeconfig", "--name", flags.name], signal)).trim();
  await tell({ lab: flags.name, kubeconfig, kubectl: findKubectl(`${root}node_modules/.tools`), signal });
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
