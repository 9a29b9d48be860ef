import { readNamedFile } from "#shared/files.ts";
import { oneLine, printText } from "@fairlead/base/print.ts";
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { defined } from "@fairlead/base/defined.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import type { Side } from "@fairlead/fleet/cli/fleet/steps.ts";
import { moveHub, type MoveOptions, planHubMove } from "@fairlead/fleet/cli/hub-move/move.ts";
import type { ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { printResult } from "#shared/output.ts";

interface Flags {
  readonly from: string;
  readonly to: string;
  readonly fromContext?: string | undefined;
  readonly toContext?: string | undefined;
  readonly hubServer?: string | undefined;
  readonly hubCaFile?: string | undefined;
  readonly back?: true | undefined;
  readonly dryRun?: true | undefined;
  readonly timeout: string;
  readonly output: ResultOutput;
}

export async function move(flags: Flags): Promise<void> {
  await runForPeople("hub move", async ({ deps, signal }) => {
    const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
    const hubCa =
      flags.hubCaFile === undefined
        ? undefined
        : await readNamedFile("file of certificates", flags.hubCaFile);
    const [a, b] = await Promise.all([
      loadKubeconfig(flags.from, defined({ context: flags.fromContext })),
      loadKubeconfig(flags.to, defined({ context: flags.toContext })),
    ]);
    const isBack = flags.back === true;
    const configs = isBack ? { from: b, to: a } : { from: a, to: b };
    await using from = connect(configs.from, deps);
    await using to = connect(configs.to, deps);
    const side = (client: typeof from, config: ClusterConfig): Side => ({
      who: `the hub at ${config.server}`,
      client,
    });
    const options: MoveOptions = {
      from: side(from, configs.from),
      to: side(to, configs.to),
      configs,
      ...defined({ hubServer: flags.hubServer, hubCa }),
      isBack,
      timeoutMs,
      identity: `${hostname()}-${process.pid}-${randomBytes(3).toString("hex")}`,
      progress: sayStep,
      deps,
      signal,
    };
    await checkReachable(from, { who: options.from.who, config: configs.from }, deps, signal);
    await checkReachable(to, { who: options.to.who, config: configs.to }, deps, signal);
    if (flags.dryRun === true) {
      const steps = await planHubMove(options);
      if (flags.output === "text") printText(steps.map(oneLine).join("\n"));
      else printResult({ steps }, flags.output);
      return;
    }
    const moved = await moveHub(options);
    for (const it of moved.away)
      sayStep(`${it} is away: it follows when it is back within a day; later, run the command again`);
    printResult(moved, flags.output);
  });
}
