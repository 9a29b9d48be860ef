/**
 * Images as names of programs on this machine: nothing is pulled, and a container's root is the machine's own. Pure.
 */

import { agnhostScript } from "./agnhost/script.ts";
import { ASH, NGINX, standIn } from "./scripts.ts";
import { formatImage, imageName, parseImage } from "./reference.ts";

/** What an image's configuration would say. */
export interface ImageProgram {
  readonly image: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What a container of it has of the machine's files and folders, in addition to its programs. */
  readonly needs: readonly MachineFile[];
  /**
   * Shell scripts that the image has in `SCRIPT_FOLDER`, by name: they precede the machine's own programs in PATH. A script
   * whose name is a path is there.
   */
  readonly scripts: Readonly<Record<string, string>>;
}

/** The folder of an image's scripts. Each container has its own, even where /usr is read-only. */
export const SCRIPT_FOLDER = "/run/fairlead/bin";

/** A file or folder of the machine, and where a container has it, to read only. */
export interface MachineFile {
  readonly source: string;
  readonly target: string;
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export type ImageResult =
  | { readonly found: true; readonly program: ImageProgram }
  | {
      readonly found: false;
      readonly reason: "InvalidImageName" | "ErrImagePull" | "ErrImageNeverPull";
      readonly message: string;
    };

/** What the catalogue has to know of the machine. */
export interface Machine {
  /** Whether a program of this name is on the search path. */
  has(program: string): boolean;
  /** How a container starts a program of Fairlead itself: the Node binary and the entry file, or a single executable. */
  readonly fairlead: readonly string[];
  readonly fairleadFiles: readonly MachineFile[];
  /** Host name of the node: that of pods on its own network. */
  readonly hostname: string;
  /** Defaults of the environment of our own images: which node and which cluster this is. */
  readonly identity: Readonly<Record<string, string>>;
}

interface Entry {
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  /** Programs that must be there, with the Debian package of each. */
  readonly requires?: Readonly<Record<string, string>>;
  /** Text of scripts that precede the machine's programs in PATH. */
  readonly scripts?: Readonly<Record<string, string>>;
  /** One of Fairlead's programs: what its image would be called with. The image has `node`, too. */
  readonly own?: readonly string[];
  /** A script that is the entrypoint in the place of that program, which it starts if it has to: its path or name, and its text. */
  readonly front?: { readonly path: string; readonly render: (program: readonly string[]) => string };
  /** The entry for machines on which the required programs are not installed. */
  readonly otherwise?: Entry;
}

const SHELL: Entry = { cmd: ["sh"], scripts: { "/bin/ash": ASH } };
const CURL: Entry = { entrypoint: ["curl"], requires: { curl: "curl" } };
/** Our own server needs curl for its probes only. */
const JSON_MOCK: Entry = { own: ["lab-json-mock"], requires: { curl: "curl" } };
const DNS_TOOLS: Entry = { cmd: ["sh"], requires: { dig: "bind9-dnsutils", nslookup: "bind9-dnsutils" } };

/**
 * socat that continues (-s) where it cannot write to one side. `socat TCP-LISTEN:...,fork SYSTEM:'echo ...'` serves a request
 * that the program does not read: where the program has ended before the request is passed on, plain socat gives up
 * (EPIPE) and drops the answer, which it has not read yet. On a busy machine that is one connection in ten.
 */
const SOCAT = {
  socat: `#!/bin/sh
exec "$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v socat)" -s "$@"
`,
};

/** By registry and repository. Every tag and digest means the same program. */
const ENTRIES: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ["fairlead.dev/echo", { own: ["lab-echo"] }],
  ["fairlead.dev/fairlead", { own: [] }],
  [
    "registry.k8s.io/e2e-test-images/agnhost",
    {
      requires: { bash: "bash", perl: "perl-base" },
      own: ["lab-agnhost"],
      cmd: ["pause"],
      front: { path: "/agnhost", render: agnhostScript },
    },
  ],
  ["docker.io/library/busybox", SHELL],
  ["docker.io/library/alpine", SHELL],
  ["docker.io/library/bash", { cmd: ["bash"], requires: { bash: "bash" } }],
  ["docker.io/library/debian", { cmd: ["bash"], requires: { bash: "bash" } }],
  ["docker.io/library/ubuntu", { cmd: ["bash"], requires: { bash: "bash" } }],
  [
    "docker.io/library/nginx",
    {
      entrypoint: ["nginx"],
      cmd: ["-g", "daemon off;"],
      requires: { nginx: "nginx-light" },
      scripts: { nginx: NGINX },
      // Serves files alone.
      otherwise: {
        own: ["lab-nginx"],
        cmd: ["-g", "daemon off;"],
        front: { path: "nginx", render: standIn },
      },
    },
  ],
  ["docker.io/cilium/json-mock", JSON_MOCK],
  ["quay.io/cilium/json-mock", JSON_MOCK],
  ["docker.io/curlimages/curl", CURL],
  ["quay.io/curl/curl", CURL],
  ["docker.io/alpine/curl", CURL],
  ["docker.io/alpine/socat", { entrypoint: ["socat"], requires: { socat: "socat" }, scripts: SOCAT }],
  [
    "docker.io/nicolaka/netshoot",
    {
      cmd: ["bash"],
      requires: { bash: "bash", curl: "curl", dig: "bind9-dnsutils", nc: "netcat-openbsd", socat: "socat" },
      scripts: SOCAT,
    },
  ],
  // What a lab's clusters have in the place of CoreDNS.
  ["registry.k8s.io/coredns/coredns", { own: ["lab-dns"] }],
  ["registry.k8s.io/e2e-test-images/jessie-dnsutils", DNS_TOOLS],
  [
    "registry.k8s.io/pause",
    { entrypoint: ["sh", "-c", "trap 'exit 0' INT TERM; while :; do sleep 3600 & wait; done"] },
  ],
]);

/** Names in the catalogue, in their usual spelling. */
export function catalogueNames(): readonly string[] {
  return [...ENTRIES.keys()].map((it) => it.replace(/^docker\.io\/(?:library\/)?/, ""));
}

/** Full names of the images whose programs the machine has, for the list of a Node. */
export function availableImages(machine: Machine): readonly string[] {
  return [...ENTRIES.keys()].filter((it) => resolveImage(it, machine).found).map((it) => `${it}:latest`);
}

/** The program that an image name stands for, or why there is none: a reason and message as of a failed pull. */
export function resolveImage(text: string, machine: Machine): ImageResult {
  const reference = parseImage(text);
  if (reference === undefined) {
    const message = `Failed to apply default image tag "${text}": couldn't parse image name: invalid reference format`;
    return { found: false, reason: "InvalidImageName", message };
  }
  const entry = ENTRIES.get(imageName(reference));
  const image = formatImage(reference);
  if (entry === undefined) {
    const known = catalogueNames().join(", ");
    const message = `failed to pull image "${image}": images are names of programs on this machine, and the catalogue has none of this name; it has: ${known}`;
    return { found: false, reason: "ErrImagePull", message };
  }
  const missing = Object.entries(entry.requires ?? {}).filter(([program]) => !machine.has(program));
  if (missing.length > 0 && entry.otherwise === undefined) {
    const programs = missing.map(([program]) => program).join(", ");
    const packages = [...new Set(missing.map(([, name]) => name))].join(" ");
    const message = `failed to pull image "${image}": it stands for programs of this machine that are not installed (${programs}); install the Debian package: ${packages}`;
    return { found: false, reason: "ErrImagePull", message };
  }
  const used = missing.length > 0 ? (entry.otherwise ?? entry) : entry;
  const program = used.own === undefined ? machineProgram(used) : ownProgram(used, used.own, machine);
  return { found: true, program: { image, ...program } };
}

type Program = Omit<ImageProgram, "image">;

function machineProgram({ entrypoint = [], cmd = [], scripts = {} }: Entry): Program {
  const env: Readonly<Record<string, string>> =
    Object.keys(scripts).length > 0 ? { PATH: `${SCRIPT_FOLDER}:${SYSTEM_PATH}` } : {};
  return { entrypoint, cmd, env, needs: [], scripts };
}

function ownProgram({ front, cmd = [] }: Entry, args: readonly string[], machine: Machine): Program {
  const own = [...machine.fairlead, ...args];
  const [node = "node", entryFile] = machine.fairlead;
  return {
    entrypoint: front === undefined ? own : [front.path],
    cmd,
    env: { ...machine.identity, PATH: `${SCRIPT_FOLDER}:${SYSTEM_PATH}` },
    needs: machine.fairleadFiles,
    scripts: {
      // A single executable has a Node that runs nothing else.
      ...(entryFile === undefined ? {} : { node: `#!/bin/sh\nexec '${node}' "$@"\n` }),
      ...(front === undefined ? {} : { [front.path]: front.render(own) }),
    },
  };
}
