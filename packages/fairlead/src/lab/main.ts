import { Command, Option } from "@commander-js/extra-typings";
import { IMPORT_CREATORS } from "@fairlead/fleet/member/session.ts";
import { FLAGS } from "#shared/flags.ts";
import { listOption } from "#shared/output.ts";

/** `fairlead lab`: the commands. Their implementations are in the other files of this folder, loaded on demand. */
export function command(): Command {
  const lab = new Command("lab").description(
    "run a fleet on this machine: a hub and members in network namespaces",
  );
  // Flags of a command come before its arguments; what follows belongs to kubectl or to the shell.
  lab.enablePositionalOptions();
  const name = ["--name <name>", "name of the lab", "demo"] as const;
  lab
    .command("up")
    .description("bring a lab up, or repair one that is partly up")
    .option(...name)
    .option("--members <number>", "member clusters, 1 to 100", "3")
    .option("--nodes <number>", "nodes of each member, 1 to 5", "2")
    .option(
      "--topology <topology>",
      "flat: pod networks are routed between clusters; nat: each member is behind NAT, all with the same addresses",
      "flat",
    )
    .option(
      "--nat <kind>",
      "with topology nat: friendly, random (one port for each destination) or mixed",
      "mixed",
    )
    .option("--nat-udp-seconds <number>", "with topology nat: life of a UDP mapping without an answer", "30")
    .option("--nat-udp-stream-seconds <number>", "with topology nat: life of a UDP mapping in use", "180")
    .option("--ip-family <family>", "IP families of pods, nodes and Services: dual or ipv4", "dual")
    .option("--lease-seconds <number>", "silence after which a cluster or node counts as dead", "5")
    .option(
      "--kubernetes-version <version>",
      "release of Kubernetes of clusters and nodes: 1.36 or 1.35",
      "1.36",
    )
    .option("--bare", "only clusters, the hub with nodes too, to install charts and join as on real clusters")
    .addOption(
      new Option(
        "--service-imports <how>",
        "creators of ServiceImports in members: agents, or users, for the services they want",
      )
        .choices(IMPORT_CREATORS)
        .default(IMPORT_CREATORS[0]),
    )
    .option("--network-policy", "with topology flat, too, run fairlead node, which enforces network policies")
    .option("--upgrades", "run a program that upgrades clusters as update runs ask")
    .option("--no-fleet", "do not join the clusters to the hub")
    .action(async (options, of) =>
      (await import("./up.ts")).up(options, (it) => of.getOptionValueSource(it) === "cli"),
    );
  lab
    .command("down")
    .description("remove a lab completely")
    .option(...name)
    .option("--all", "remove every lab of this user, after a confirmation")
    .option("-y, --yes", "skip the confirmation")
    .action(async (options) => (await import("./down.ts")).down(options));
  lab
    .command("list")
    .description("list the labs of this user")
    .addOption(listOption())
    .action(async (options) => (await import("./list.ts")).list(options));
  lab
    .command("status")
    .description("what runs")
    .option(...name)
    .addOption(listOption())
    .action(async (options) => (await import("./status.ts")).status(options));
  lab
    .command("logs")
    .description("print the log of a program, such as member-1/apiserver")
    .argument("<program>")
    .option(...name)
    .option(FLAGS.follow, "print new lines as they are written")
    .option("--tail <lines>", "print only the last lines")
    .action(async (program, options) => (await import("./logs.ts")).logs(program, options));
  lab
    .command("kubectl")
    .description("run kubectl against a cluster: lab kubectl member-1 get pods -A")
    .argument("<cluster>")
    .argument("[arguments...]")
    .option(...name)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (cluster, args, options) => (await import("./enter.ts")).kubectl(cluster, args, options));
  lab
    .command("kubeconfig")
    .description("print the path of the lab's kubeconfig, which has a context for each cluster")
    .option(...name)
    .action(async (options) => (await import("./enter.ts")).kubeconfig(options));
  lab
    .command("shell")
    .description(
      "open a shell in the network of a cluster or node; by default in a network that reaches all addresses of the lab",
    )
    .usage("[options] [place] [[--] command...]")
    .argument(
      "[place-and-command...]",
      "a cluster or node, and a command to run instead of a shell; after -- only the command",
    )
    .option(...name)
    .passThroughOptions()
    .action(async (words, options) => (await import("./enter.ts")).shell(words, options));
  for (const verb of ["kill", "restore"] as const) {
    lab
      .command(verb)
      .description(
        verb === "kill"
          ? "kill a process (member-1/apiserver), node (member-1-node-1), cluster (member-1, hub) or link (link/member-1)"
          : "restart what was killed",
      )
      .argument("<target>")
      .option(...name)
      .action(async (target, options) => (await import("./faults.ts"))[verb](target, options));
  }
  lab
    .command("reboot")
    .description(
      "boot a node as a machine boots: its processes end, its network is recreated without rules of the kernel, and what is on disk stays",
    )
    .argument("<node>", "such as member-1-node-1")
    .option(...name)
    .option("--power-cut", "do not ask processes to end")
    .option("--drain", "let pods leave the node before, and come again after it")
    .option(
      "--no-restore",
      "do not load the table of policies that the node keeps, as without its init unit: pods begin without policies",
    )
    .action(async (node, options) => (await import("./reboot.ts")).reboot(node, options));
  lab
    .command("upgrade")
    .description(
      "upgrade a cluster while it serves: its control plane, then its nodes, each replaced by a new one",
    )
    .argument("<cluster>", "such as member-1")
    .option(...name)
    .requiredOption("--kubernetes-version <version>", "1.36 or 1.35")
    .option("--control-plane-only", "keep the nodes")
    .option("--nodes-only", "keep the control plane")
    .option("--drain-timeout <seconds>", "time limit for the pods of a node to leave it", "600")
    .action(async (cluster, options) => (await import("./upgrade.ts")).upgrade(cluster, options));
  lab
    .command("link")
    .description("change the link of a cluster or node, in both directions alike, or print what holds of it")
    .argument("<place>", "a cluster (member-1, hub), for its link to the others, or a node (member-1-node-1)")
    .option(...name)
    .option("--mtu <bytes>", "longest packet, 1280 to 9000")
    .option("--delay <duration>", "delay of each direction, such as 20ms; 0: none")
    .option("--loss <percentage>", "share of the packets that are lost, such as 1%")
    .option("--rate <rate>", "rate of each direction, such as 50mbit")
    .option("--drop-udp", "lose all UDP")
    .option("--drop-udp-fragments", "lose fragments of UDP packets")
    .option("--reset", "make the link an ordinary one before the other flags")
    .action(async (place, options) => (await import("./link.ts")).link(place, options));
  return lab;
}
