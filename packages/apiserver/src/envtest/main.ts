import { Command, Option } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { type Assets, defaultFolder, folderOf, VERSION, writeAssets } from "./assets.ts";

const PRINTS = ["overview", "path", "env"] as const;
const BIN_DIR_FLAG = [
  "--bin-dir <folder>",
  "where the programs are put; default: in the user's data folder",
] as const;

/**
 * `fairlead envtest`: the API server of this program for suites that use envtest of controller-runtime, with the commands of its
 * setup-envtest. Nothing is downloaded.
 */
export function command(): Pick<Command, "parseAsync"> {
  const envtest = new Command("envtest").description(
    "manage the API server for test suites that use envtest",
  );
  envtest
    .command("use")
    .description("install kube-apiserver, etcd and kubectl in a folder, and print its path")
    .argument("[version]", `Kubernetes version: ${VERSION}, or a pattern such as 1.36.x`)
    .addOption(new Option("-p, --print <what>", "output format").choices(PRINTS).default("overview" as const))
    .option(...BIN_DIR_FLAG)
    .action((version, flags) =>
      runForPeople("envtest use", async () => {
        checkVersion(version);
        const assets = writeAssets(flags.binDir ?? defaultFolder(process.env));
        process.stdout.write(render(assets, flags.print));
        if (!assets.hasKubectl) process.stderr.write(NO_KUBECTL);
      }),
    );
  envtest
    .command("list")
    .description("list the supported version")
    .action(() =>
      runForPeople("envtest list", async () => {
        process.stdout.write(`(installed)  v${VERSION}  ${platform()}\n`);
      }),
    );
  envtest
    .command("path")
    .description("print the folder of `use` without installing")
    .option(...BIN_DIR_FLAG)
    .action((flags) =>
      runForPeople("envtest path", async () => {
        process.stdout.write(`${folderOf(flags.binDir ?? defaultFolder(process.env))}\n`);
      }),
    );
  return envtest;
}

const NO_KUBECTL =
  "fairlead envtest use: there is no kubectl on the PATH, so the folder has none; tests that call kubectl need one.\n";

function platform(): string {
  return `linux/${process.arch === "x64" ? "amd64" : process.arch}`;
}

/** A version, "latest", or a pattern of setup-envtest: 1.36, 1.36.x, 1.x, ~1.36.0, each also with a final "!". */
function checkVersion(wanted: string = "latest"): void {
  const isAnyPatch = wanted.startsWith("~");
  const parts = wanted.replace(/!$/, "").replace(/^[v~]/, "").split(".");
  const served = VERSION.split(".").slice(0, isAnyPatch ? 2 : 3);
  const isServed = served.every((it, at) => [it, "x", "*", undefined].includes(parts[at]));
  if (isServed || parts[0] === "latest") return;
  throw new FleetError(
    "OPTION_INVALID",
    `Kubernetes ${wanted} is not supported: this program serves the API of ${VERSION} only`,
  );
}

function render({ folder }: Assets, print: (typeof PRINTS)[number]): string {
  switch (print) {
    case "path":
      return folder;
    case "env":
      return `export KUBEBUILDER_ASSETS='${folder.replaceAll("'", String.raw`'\''`)}'\n`;
    case "overview":
      return `Version: ${VERSION}\nOS/Arch: ${platform()}\nPath: ${folder}\n`;
    default:
      return print satisfies never;
  }
}
