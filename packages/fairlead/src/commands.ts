import { Command, type CommandUnknownOpts } from "@commander-js/extra-typings";

/** The commands of the one executable, each in a module that is loaded only when it is asked for. */

interface Entry {
  readonly summary: string;
  readonly load: () => Promise<{ command(): unknown }>;
  /** Programs that the lab starts; left out of the help. */
  readonly hidden?: boolean;
  /** The executable may be called by this name, too: a link to it is enough. */
  readonly isProgram?: boolean;
}

export const COMMANDS: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ["lab", { summary: "a fleet on this machine", load: () => import("#lab/main.ts") }],
  ["join", { summary: "make a cluster a member of the fleet", load: () => import("#join/main.ts") }],
  ["leave", { summary: "take a member out of the fleet", load: () => import("#leave/main.ts") }],
  ["drain", { summary: "send new requests of a member to the others", load: () => import("#drain/main.ts") }],
  ["status", { summary: "clusters, exports, imports and endpoints", load: () => import("#status/main.ts") }],
  [
    "version",
    { summary: "versions of this program, the hub and the members", load: () => import("#version/main.ts") },
  ],
  ["completion", { summary: "completion for bash, zsh and fish", load: () => import("#completion/main.ts") }],
  ["hub", { summary: "the manager that runs beside the hub", load: () => import("#hub/main.ts") }],
  ["member", { summary: "the manager that runs in each member", load: () => import("#member/main.ts") }],
  [
    "hub-net-controller-manager",
    {
      summary: "the hub's manager, called as fleet-networking's is",
      load: () => import("#hub-net-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "member-net-controller-manager",
    {
      summary: "exports and imports of a member, called as fleet-networking's manager is",
      load: () => import("#member-net-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "mcs-controller-manager",
    {
      summary: "MultiClusterServices of a member, called as fleet-networking's manager is",
      load: () => import("#mcs-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "net-crd-installer",
    {
      summary: "install the kinds of a hub or a member, called as fleet-networking's is",
      load: () => import("#net-crd-installer/main.ts"),
      isProgram: true,
    },
  ],
  ["dns", { summary: "DNS for the cluster set, in each member", load: () => import("#dns/main.ts") }],
  ["crds", { summary: "the kinds that a cluster needs", load: () => import("#crds/main.ts") }],
  [
    "apiserver",
    {
      summary: "a Kubernetes API server by itself",
      load: () => import("@fairlead/apiserver/program/main.ts"),
    },
  ],
  [
    "envtest",
    {
      summary: "an API server for test suites that use envtest",
      load: () => import("@fairlead/apiserver/envtest/main.ts"),
    },
  ],
  [
    "kube-apiserver",
    {
      summary: "",
      load: () => import("@fairlead/apiserver/envtest/kube-apiserver.ts"),
      hidden: true,
      isProgram: true,
    },
  ],
  [
    "etcd",
    { summary: "", load: () => import("@fairlead/apiserver/envtest/etcd.ts"), hidden: true, isProgram: true },
  ],
  ["reach", { summary: "", load: () => import("#reach/main.ts"), hidden: true }],
  ["lab-controllers", { summary: "", load: () => import("#lab-controllers/main.ts"), hidden: true }],
  ["lab-dns", { summary: "", load: () => import("#lab-dns/main.ts"), hidden: true }],
  ["lab-echo", { summary: "", load: () => import("#lab-echo/main.ts"), hidden: true }],
  ["lab-node", { summary: "", load: () => import("#lab-node/main.ts"), hidden: true }],
]);

/**
 * A command, ready to parse: it calls itself by the name that people type, says on one line what is wrong with a command
 * line and how to learn more, and throws a `CommanderError` where it would end the process.
 */
export async function loadCommand(name: string, entry: Entry): Promise<Command> {
  const made = (await entry.load()).command();
  if (!(made instanceof Command)) throw new TypeError(`command ${name} is no Command`);
  made.name(entry.isProgram === true ? name : `fairlead ${name}`);
  teachManners(made, made.name());
  return made;
}

function teachManners(command: Command | CommandUnknownOpts, name: string): void {
  command.exitOverride();
  command.configureOutput({
    outputError: (text, write) => {
      const [problem = "", ...meant] = text
        .trim()
        .replace(/^error: /, "")
        .split("\n");
      const said = [problem.replace(/\.$/, ""), ...meant.map((it) => it.toLowerCase())].join(" ");
      write(`${name}: ${said}. "${name} --help" tells what it takes.\n`);
    },
  });
  for (const it of command.commands) teachManners(it, `${name} ${it.name()}`);
}
