import { Command, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { EXAMPLES } from "./examples.ts";

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
  ["lab", { summary: "run a fleet on this machine", load: () => import("#lab/main.ts") }],
  ["join", { summary: "make a cluster a member of the fleet", load: () => import("#join/main.ts") }],
  ["leave", { summary: "remove a member from the fleet", load: () => import("#leave/main.ts") }],
  ["drain", { summary: "send new requests to other members", load: () => import("#drain/main.ts") }],
  ["cordon", { summary: "keep placements from picking a member", load: () => import("#cordon/main.ts") }],
  [
    "uncordon",
    {
      summary: "let placements pick a member again",
      load: async () => ({ command: (await import("#cordon/main.ts")).uncordon }),
    },
  ],
  [
    "mesh",
    {
      summary: "connect members by profiles, with a preview and a way back",
      load: () => import("#mesh/main.ts"),
    },
  ],
  ["updaterun", { summary: "upgrade clusters stage by stage", load: () => import("#updaterun/main.ts") }],
  [
    "updatestrategy",
    { summary: "keep stages and groups for update runs", load: () => import("#updatestrategy/main.ts") },
  ],
  [
    "autoupgradeprofile",
    {
      summary: "make update runs of the versions that catalogs list",
      load: () => import("#autoupgradeprofile/main.ts"),
    },
  ],
  [
    "releasecatalog",
    {
      summary: "keep the versions that clusters can be upgraded to",
      load: () => import("#releasecatalog/main.ts"),
    },
  ],
  ["gate", { summary: "list and approve what update runs wait for", load: () => import("#gate/main.ts") }],
  [
    "status",
    { summary: "show clusters, exports, imports and endpoints", load: () => import("#status/main.ts") },
  ],
  [
    "verify",
    {
      summary: "check the network from every cluster to every other",
      load: () => import("#verify/main.ts"),
    },
  ],
  [
    "policy",
    { summary: "explain, compare and check network policies", load: () => import("#policy/main.ts") },
  ],
  [
    "placement",
    {
      summary: "show, explain and roll back placements of resources on clusters",
      load: () => import("#placement/main.ts"),
    },
  ],
  [
    "version",
    {
      summary: "show the versions of this program, the hub and the members",
      load: () => import("#version/main.ts"),
    },
  ],
  [
    "completion",
    {
      summary: "print the completion script of bash, zsh or fish",
      load: () => import("#completion/main.ts"),
    },
  ],
  ["hub", { summary: "run the controllers of the hub", load: () => import("#hub/main.ts") }],
  [
    "member",
    {
      summary: "run the controllers of a member; list, show and update members",
      load: () => import("#member/main.ts"),
    },
  ],
  ["node", { summary: "run the agent of a node", load: () => import("#node/main.ts") }],
  [
    "hub-net-controller-manager",
    {
      summary: "run the hub's controllers, with the flags of fleet-networking",
      load: () => import("#hub-net-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "member-net-controller-manager",
    {
      summary: "run exports and imports of a member, with the flags of fleet-networking",
      load: () => import("#member-net-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "mcs-controller-manager",
    {
      summary: "run MultiClusterServices of a member, with the flags of fleet-networking",
      load: () => import("#mcs-controller-manager/main.ts"),
      isProgram: true,
    },
  ],
  [
    "net-crd-installer",
    {
      summary: "install the CRDs of a hub or a member, with the flags of fleet-networking",
      load: () => import("#net-crd-installer/main.ts"),
      isProgram: true,
    },
  ],
  ["dns", { summary: "serve and set up DNS for the cluster set", load: () => import("#dns/main.ts") }],
  [
    "relay",
    {
      summary: "forward the tunnels of gateways that cannot reach each other",
      load: () => import("#relay/main.ts"),
    },
  ],
  ["crds", { summary: "install, check or print the CRDs", load: () => import("#crds/main.ts") }],
  [
    "apiserver",
    {
      summary: "run a standalone Kubernetes API server",
      load: () => import("@fairlead/apiserver/program/main.ts"),
    },
  ],
  [
    "envtest",
    {
      summary: "run an API server for test suites that use envtest",
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
  [
    "kubectl_complete-fairlead",
    { summary: "", load: () => import("#completion/kubectl.ts"), hidden: true, isProgram: true },
  ],
  ["reach", { summary: "", load: () => import("#reach/main.ts"), hidden: true }],
  ["verify-pod", { summary: "", load: () => import("#verify-pod/main.ts"), hidden: true }],
  ["lab-controllers", { summary: "", load: () => import("#lab-controllers/main.ts"), hidden: true }],
  ["lab-dns", { summary: "", load: () => import("#lab-dns/main.ts"), hidden: true }],
  ["lab-wire", { summary: "", load: () => import("#lab-wire/main.ts"), hidden: true }],
  ["lab-echo", { summary: "", load: () => import("#lab-echo/main.ts"), hidden: true }],
  ["lab-json-mock", { summary: "", load: () => import("#lab-json-mock/main.ts"), hidden: true }],
  ["lab-nginx", { summary: "", load: () => import("#lab-nginx/main.ts"), hidden: true }],
  ["lab-agnhost", { summary: "", load: () => import("#lab-agnhost/main.ts"), hidden: true }],
  ["lab-upgrader", { summary: "", load: () => import("#lab-upgrader/main.ts"), hidden: true }],
  ["lab-node", { summary: "", load: () => import("#lab-node/main.ts"), hidden: true }],
]);

/**
 * Loads a command for parsing: it has the name that users type, reports a wrong command line on one line
 * with a hint to the help, and throws a `CommanderError` instead of exiting.
 */
export async function loadCommand(name: string, entry: Entry): Promise<Command> {
  const made = (await entry.load()).command();
  if (!(made instanceof Command)) throw new TypeError(`${name} is not a Command`);
  made.name(entry.isProgram === true ? name : `fairlead ${name}`);
  configureCommand(made, made.name(), [name]);
  return made;
}

function configureCommand(
  command: Command | CommandUnknownOpts,
  name: string,
  words: readonly string[],
): void {
  command.exitOverride();
  command.configureOutput({
    outputError: (text, write) => {
      const [problem = "", ...meant] = text
        .trim()
        .replace(/^error: /, "")
        .split("\n");
      const said = [problem.replace(/\.$/, ""), ...meant.map((it) => it.toLowerCase())].join(" ");
      write(`${name}: ${said}. Run "${name} --help" for its flags.\n`);
    },
  });
  command.addHelpText("after", examplesOf(words));
  for (const it of command.commands) configureCommand(it, `${name} ${it.name()}`, [...words, it.name()]);
}

function examplesOf(words: readonly string[]): string {
  const examples = EXAMPLES[words.join(" ")] ?? [];
  if (examples.length === 0) return "";
  return `\n${examples.length === 1 ? "Example" : "Examples"}:\n${examples.map((it) => `  ${it}`).join("\n")}`;
}
