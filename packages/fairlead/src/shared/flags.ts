/**
 * The spelling of flags that several commands have. A flag is spelled, and takes a value, in the same way in all commands, and a
 * letter stands for one flag; `flags.test.ts` compares all of them.
 */
export const FLAGS = {
  kubeconfig: "--kubeconfig <file>",
  hubContext: "--hub-context <name>",
  hubKubeconfig: "--hub-kubeconfig <file>",
  memberContext: "--member-context <name>",
  memberKubeconfig: "--member-kubeconfig <file>",
  /** The cluster of commands that ask members alone. */
  context: "--context <name>",
  contexts: "--contexts <names>",
  namespace: "-n, --namespace <name>",
  file: "-f, --file <file>",
  /** The letter -f means a file where a command reads one, and else means to follow, as in kubectl. */
  follow: "-f, --follow",
  watch: "-w, --watch",
  output: "-o, --output <format>",
  dryRun: "--dry-run",
  noWait: "--no-wait",
  timeout: "--timeout <seconds>",
  image: "--image <name>",
} as const;
