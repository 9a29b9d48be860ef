import { messageOf } from "#base/errors.ts";

/**
 * The one executable. Only the module of the command that was asked for is loaded, so that each program starts with no
 * more than it needs.
 */
interface CommandModule {
  command(): { parseAsync(argv: readonly string[], options: { from: "user" }): Promise<unknown> };
}

interface Entry {
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
  /** Programs that the lab starts; left out of the help. */
  readonly hidden?: boolean;
}

const COMMANDS: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ["lab", { summary: "a fleet on this machine", load: () => import("../lab/main.ts") }],
  ["join", { summary: "make a cluster a member of the fleet", load: () => import("../join/main.ts") }],
  ["leave", { summary: "take a member out of the fleet", load: () => import("../leave/main.ts") }],
  [
    "status",
    { summary: "clusters, exports, imports and endpoints", load: () => import("../status/main.ts") },
  ],
  ["hub", { summary: "the manager that runs beside the hub", load: () => import("../hub/main.ts") }],
  ["member", { summary: "the manager that runs in each member", load: () => import("../member/main.ts") }],
  ["dns", { summary: "DNS for the cluster set, in each member", load: () => import("../dns/main.ts") }],
  ["apiserver", { summary: "a Kubernetes API server by itself", load: () => import("../apiserver/main.ts") }],
  ["lab-controllers", { summary: "", load: () => import("../lab-controllers/main.ts"), hidden: true }],
  ["lab-dns", { summary: "", load: () => import("../lab-dns/main.ts"), hidden: true }],
  ["lab-echo", { summary: "", load: () => import("../lab-echo/main.ts"), hidden: true }],
  ["lab-node", { summary: "", load: () => import("../lab-node/main.ts"), hidden: true }],
]);

const USAGE = `Fairlead: fleet networking for Kubernetes.

Usage: fairlead COMMAND [flags]

Commands:
${[...COMMANDS]
  .filter(([, entry]) => entry.hidden !== true)
  .map(([name, entry]) => `  ${name.padEnd(12)} ${entry.summary}`)
  .join("\n")}

fairlead COMMAND --help tells the flags of a command.
`;

async function main(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") {
    process.stdout.write(USAGE);
    return name === undefined ? 2 : 0;
  }
  const entry = COMMANDS.get(name);
  if (entry === undefined) {
    process.stderr.write(
      `fairlead: there is no command ${JSON.stringify(name)}. fairlead --help lists them.\n`,
    );
    return 2;
  }
  try {
    const module = await entry.load();
    await module.command().parseAsync(rest, { from: "user" });
  } catch (error) {
    process.stderr.write(`fairlead ${name}: ${messageOf(error)}\n`);
    return 1;
  }
  return typeof process.exitCode === "number" ? process.exitCode : 0;
}

process.exitCode = await main(process.argv.slice(2));
