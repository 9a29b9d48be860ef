import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { SCRIPT_FOLDER } from "#images/catalogue.ts";
import { type Identity, identityCommand } from "../pod/identity.ts";
import { EXEC_CONTEXT_FILE } from "./exec-context.ts";
import { type ContainerRecord, RECORD_FILE } from "./folder.ts";
import { type BindMount, type KernelFiles, planRoot, readOnlyFolders } from "./root.ts";
import { renderWords } from "./shim.ts";
import { TERMINATION_FILE } from "./termination.ts";

/** Everything that the program in a container is given. */
export interface ContainerSpec extends ContainerRecord {
  readonly argv: readonly string[];
  readonly env: ReadonlyMap<string, string>;
  readonly workingDir: string;
  readonly hostname: string;
  readonly binds: readonly BindMount[];
  /** Text of files in /etc, by name. */
  readonly etc: Readonly<Record<string, string>>;
  /** File of the pod's network namespace; undefined for the node's own. */
  readonly netns: string | undefined;
  /** Text of executable files in the image's `SCRIPT_FOLDER`, by name; or where their name, a path, says. */
  readonly scripts: Readonly<Record<string, string>>;
  readonly identity: Identity;
  /** Keeps standard input open for `attach`. */
  readonly stdin: boolean;
  /** Standard input ends with the first client that was attached. */
  readonly stdinOnce: boolean;
  /** Where in the container its termination message is written. */
  readonly terminationMessagePath: string;
}

export interface PrepareOptions {
  /** Folders that are mounted over the machine's root. */
  readonly system: readonly string[];
  /** As in `MachineFiles`. */
  readonly ownsFolders: boolean;
  /** Folders hidden from the container. */
  readonly hidden: readonly string[];
  /** Files of the machine in /etc that only root may read: no image would have them. */
  readonly rootOnly: readonly string[];
  readonly kernel: KernelFiles;
  readonly shimEnv: Readonly<Record<string, string>>;
  /** Path of the program's end of its terminal. */
  readonly terminal: string | undefined;
}

/** No user has a password (shadow(5)). */
const SHADOW = "root:*::0:99999:7:::\n";

/** Writes what the shim reads into the container's folder, which is new. */
export function prepareFolder(folder: string, spec: ContainerSpec, options: PrepareOptions): void {
  const { identity } = spec;
  const scripts = Object.entries(spec.scripts);
  const own: readonly BindMount[] = [
    ...(scripts.length === 0
      ? []
      : [{ source: join(folder, "scripts"), target: SCRIPT_FOLDER, readOnly: true }]),
    ...scripts
      .filter(([path]) => path.startsWith("/") && canAdd(path, options))
      .map(([path]) => fileBind(join(folder, "scripts", basename(path)), path)),
    fileBind(join(folder, TERMINATION_FILE), spec.terminationMessagePath),
    ...(options.terminal === undefined ? [] : [fileBind(options.terminal, "/dev/console")]),
  ];
  const { system, hidden, kernel } = options;
  const binds = [...own, ...spec.binds];
  const root = planRoot({ binds, system, hidden, kernel: identity.isPrivileged ? undefined : kernel });
  const env = [...spec.env].map(([key, value]) => `${key}=${value}`);
  const prefix = [...identityCommand(identity), "/usr/bin/env", "-i", "--"];
  const terminal = spec.tty ? ["/usr/bin/setsid", "--ctty"] : [];
  const { podUid, name, attempt, image, tty, user, fallsBackToLogs } = spec;
  const record: ContainerRecord = { podUid, name, attempt, image, tty, user, fallsBackToLogs };
  mkdirSync(join(folder, "etc"), { recursive: true, mode: 0o700 });
  for (const [file, text] of Object.entries(spec.etc)) writeFileSync(join(folder, "etc", file), text);
  writeFileSync(join(folder, "etc", "shadow"), SHADOW, { mode: 0o640 });
  writeScripts(folder, scripts);
  const files: Readonly<Record<string, string>> = {
    mounts: root.mounts,
    files: root.files,
    "file-mounts": root.fileMounts,
    "root-only": options.rootOnly.map((it) => `${it}\0`).join(""),
    "read-only": identity.readOnlyRoot ? readOnlyFolders(spec.binds).join("\n") : "",
    owner: identity.uid === 0 ? "" : String(identity.uid),
    command: renderWords([...terminal, ...prefix, ...env, ...spec.argv]),
    [EXEC_CONTEXT_FILE]: JSON.stringify({
      prefix,
      env,
      workingDir: spec.workingDir,
      shimEnv: options.shimEnv,
    }),
    log: "",
    ...(options.terminal === undefined ? {} : { terminal: options.terminal }),
    ...(spec.stdinOnce ? { "stdin-once": "" } : {}),
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text, { mode: 0o600 });
  // Writable for any user that the program runs as.
  writeFileSync(join(folder, TERMINATION_FILE), "", { mode: 0o666 });
  chmodSync(join(folder, TERMINATION_FILE), 0o666);
  // Last and as a whole: a folder without it was not finished, and is removed.
  replaceFileSync(join(folder, RECORD_FILE), JSON.stringify(record));
}

/**
 * Whether a path can be added to the machine's own: /usr may be a file system of its own, which containers read only, and /bin is in it. The
 * root belongs to the container; folders below it to the machine.
 */
function canAdd(path: string, { system, ownsFolders }: PrepareOptions): boolean {
  if (!ownsFolders && dirname(path) !== "/") return false;
  return !system.some((it) => `/usr${path}`.startsWith(`${it}/`) || path.startsWith(`${it}/`));
}

function writeScripts(folder: string, scripts: readonly (readonly [name: string, text: string])[]): void {
  if (scripts.length > 0) mkdirSync(join(folder, "scripts"), { mode: 0o755 });
  for (const [file, text] of scripts)
    writeFileSync(join(folder, "scripts", basename(file)), text, { mode: 0o755 });
}

function fileBind(source: string, target: string): BindMount {
  return { source, target, readOnly: false, isFile: true };
}
