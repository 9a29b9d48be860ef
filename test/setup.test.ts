import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

/**
 * What `npm run demo` and `npm test` do first, on a copy of what they read. Programs that would change the machine or
 * ask the network are stood in for by scripts that write down how they were called.
 */

const root = fileURLToPath(new URL("..", import.meta.url));
const canMount = spawnSync("unshare", ["--mount", "mount", "-t", "tmpfs", "x", "/mnt"]).status === 0;

let folder: string;
beforeEach(() => {
  // Where other users can enter, as they do not need to in a TMPDIR.
  folder = mkdtempSync("/tmp/fairlead-setup-");
  chmodSync(folder, 0o755);
  for (const it of [
    "package.json",
    "package-lock.json",
    "scripts/setup.mjs",
    "scripts/debian-packages.mjs",
    "scripts/image",
    "scripts/tools",
  ])
    cpSync(join(root, it), join(folder, it), { recursive: true });
  // The checkout may be its owner's alone.
  spawnSync("chmod", ["-R", "a+rX", folder]);
  mkdirSync(join(folder, "bin"));
  chmodSync(join(folder, "bin"), 0o755);
  for (const it of ["npm", "unzip", "apt-get"]) standIn(it, "exit 0");
  standIn("unshare", "exit 0");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Puts a program first in the PATH that writes down its arguments and then does what `script` says. */
function standIn(name: string, script: string): void {
  const path = join(folder, "bin", name);
  writeFileSync(path, `#!/bin/sh\necho "${name} $*" >>"${folder}/calls"\n${script}\n`);
  chmodSync(path, 0o755);
}

function calls(): readonly string[] {
  const file = join(folder, "calls");
  const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  return lines.filter((it) => !it.startsWith("unshare"));
}

interface Run {
  /** Shell commands that run first, as root, in a mount namespace of their own. */
  readonly before?: readonly string[];
  readonly nodeFlags?: readonly string[];
  readonly user?: "nobody"; // prose: upstream (Debian's user)
  /** Default: "demo". */
  readonly purpose?: "demo" | "test" | "full";
}

function setUp({ before = [], nodeFlags = [], user, purpose = "demo" }: Run = {}): {
  code: number | null;
  stdout: string;
  stderr: string;
} {
  // Another user cannot enter the checkout's folder where only its owner may.
  const copy = join(folder, "node");
  if (user !== undefined) copyFileSync(process.execPath, copy);
  const program = user === undefined ? process.execPath : copy;
  const node = [program, ...nodeFlags, join(folder, "scripts/setup.mjs"), purpose];
  const become = user === undefined ? [] : ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  const line = [...become, ...node];
  // The real unshare makes the namespace; the script finds the one that stands in for it.
  const [command = "", ...args] =
    before.length === 0
      ? line
      : ["/usr/bin/unshare", "--mount", "sh", "-ec", `${before.join("\n")}\nexec "$@"`, "sh", ...line];
  const env = { PATH: `${folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin` };
  const { status, stdout, stderr } = spawnSync(command, args, { env, encoding: "utf8" });
  return { code: status, stdout, stderr };
}

/** Hides a program in the current mount namespace. */
function without(program: string): string {
  return `mount --bind /dev/null ${realpathSync(program)}`;
}

/** One line on standard error, nothing done. */
function expectRefusal(run: ReturnType<typeof setUp>, pattern: RegExp): void {
  expect(run).toMatchObject({ code: 1, stdout: "" });
  expect(run.stderr).toMatch(/^fairlead: [^\n]+\n$/);
  expect(run.stderr).toMatch(pattern);
  expect(calls()).toEqual([]);
}

describe("the setup refuses", () => {
  it("a folder that PATH cannot name", () => {
    const other = join(folder, "a:b");
    mkdirSync(other);
    for (const it of ["package.json", "package-lock.json", "scripts"])
      renameSync(join(folder, it), join(other, it));
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(other, "scripts/setup.mjs"), "demo"],
      {
        env: { PATH: `${folder}/bin:/usr/bin:/bin` },
        encoding: "utf8",
      },
    );
    expectRefusal(
      { code: status, stdout, stderr },
      /cannot use a checkout in ".*a:b\/": PATH cannot name it; move it/,
    );
  });

  it.skipIf(!canMount)("a system that is not made from Debian, and says which it is", () => {
    const work = join(folder, "etc");
    mkdirSync(work);
    const before = [
      `mount -t tmpfs etc '${work}'`,
      `cd '${work}'`,
      "mkdir upper work",
      "mount -t overlay etc -o lowerdir=/etc,upperdir=upper,workdir=work /etc",
      "rm -f /etc/debian_version /etc/os-release",
      `echo 'PRETTY_NAME="Fedora Linux 43"' >/etc/os-release`,
    ];
    expectRefusal(setUp({ before }), /needs Debian \(12 or newer\).*this is Fedora Linux 43$/m);
  });

  it("a machine that gives no namespaces", () => {
    standIn("unshare", "exit 1");
    expectRefusal(setUp(), /cannot create (a user namespace|network namespaces).*run it/);
  });

  it("an architecture for which there is no packaged Node", () => {
    const hook = join(folder, "arch.mjs");
    appendFileSync(hook, 'Object.defineProperty(process, "arch", { value: "riscv64" });\n');
    expectRefusal(setUp({ nodeFlags: ["--import", hook] }), /needs an x86-64 or arm64 machine.*riscv64/);
  });

  it.skipIf(!canMount)("to install Debian packages without root, and prints them and the command", () => {
    chmodSync(join(folder, "bin"), 0o777);
    writeFileSync(join(folder, "calls"), "");
    chmodSync(join(folder, "calls"), 0o666);
    const run = setUp({ before: [without("/usr/bin/dig"), without("/usr/bin/socat")], user: "nobody" }); // prose: upstream (Debian's user)
    expect(run.code).toBe(1);
    expect(run.stdout).toMatch(/bind9-dnsutils +DNS client/);
    expect(run.stderr).toContain("apt-get install --no-install-recommends bind9-dnsutils socat");
    expect(calls().filter((it) => !it.includes("--assume-no"))).toEqual([]);
  });
});

describe("the setup of a new checkout", () => {
  it("makes packages that all users of pods can read, whatever the umask", () => {
    standIn("npm", `umask >>"${folder}/calls"`);
    const before = process.umask(0o077);
    try {
      expect(setUp()).toMatchObject({ code: 0, stderr: "" });
    } finally {
      process.umask(before);
    }
    expect(calls().filter((it) => /^\d+$/.test(it))).toEqual(["0022", "0022"]);
  });

  it("prints what it installs before it does, and does nothing the second time", () => {
    const first = setUp();
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(/npm packages.*about \d+ MB into \.\/node_modules/);
    expect(first.stdout).toContain("starts and enables no daemon");
    expect(calls().filter((it) => it.startsWith("npm ci"))).not.toEqual([]);

    rmSync(join(folder, "calls"));
    expect(setUp()).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(calls()).toEqual([]);
  });

  it.skipIf(existsSync("/usr/sbin/named"))(
    "unpacks servers for the tests, installs them nowhere, and for the demo not at all",
    () => {
      for (const it of ["kdig", "openssl"]) standIn(it, "exit 0");
      // What apt-get would download and dpkg-deb unpack.
      standIn("apt-get", "touch some.deb");
      const unpacked = ["sbin/named", "bin/containerd"].map((it) => `install -D /dev/null "$3/usr/${it}"`);
      standIn("dpkg-deb", unpacked.join(" && "));
      expect(setUp().stdout).not.toContain("unpacked");
      rmSync(join(folder, "calls"));
      const first = setUp({ purpose: "test" });
      expect(first).toMatchObject({ code: 0, stderr: "" });
      expect(first.stdout).toMatch(/BIND.* unpacked and not installed/);
      expect(calls()[0]).toBe("apt-get download -qq bind9 bind9-libs");
      if (process.arch === "x64") {
        expect(first.stdout).toMatch(/containerd and runc.* unpacked and not installed/);
        expect(calls()).toContain("apt-get download -qq containerd runc containernetworking-plugins");
      }
      expect(calls().filter((it) => it.includes("install"))).toEqual([]);
      expect(setUp({ purpose: "test" })).toEqual({ code: 0, stdout: "", stderr: "" });
      // npm ci removes it together with the packages.
      appendFileSync(join(folder, "package-lock.json"), "\n");
      expect(setUp({ purpose: "test" }).stdout).toContain("unpacked and not installed");
    },
  );

  it("starts again when what is locked has changed", () => {
    setUp();
    rmSync(join(folder, "calls"));
    appendFileSync(join(folder, "package-lock.json"), "\n");
    expect(setUp().stdout).toContain("npm packages");
    expect(calls().some((it) => it.startsWith("npm ci"))).toBe(true);
  });

  it("does not count as done when npm failed", () => {
    standIn("npm", "echo 'npm error: no network' >&2; exit 1");
    const run = setUp();
    expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining("npm ci failed") as string });
    standIn("npm", "exit 0");
    expect(setUp().stdout).toContain("npm packages");
  });

  it.skipIf(!canMount)("installs the Debian packages that are missing and no others", () => {
    standIn("apt-get", 'echo "After this operation, 1,234 kB of additional disk space will be used."');
    const run = setUp({ before: [without("/usr/bin/dig")] });
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(run.stdout).toContain("Debian packages, 1,234 kB:\n    bind9-dnsutils");
    expect(calls().filter((it) => it.startsWith("apt-get"))).toEqual([
      "apt-get install --assume-no --no-install-recommends bind9-dnsutils",
      "apt-get install -y -qq --no-install-recommends bind9-dnsutils",
    ]);
  });

  it.skipIf(!canMount)("installs what only the long tests need for those alone", () => {
    for (const it of ["kdig", "openssl", "named"]) standIn(it, "exit 0");
    const before = existsSync("/usr/bin/faketime") ? [without("/usr/bin/faketime")] : [];
    expect(setUp({ before, purpose: "test" }).stdout).not.toContain("faketime");
    expect(setUp({ before, purpose: "full" }).stdout).toMatch(/faketime +unit tests on another day/);
    expect(calls().filter((it) => it.includes("install -y"))).toEqual([
      "apt-get install -y -qq --no-install-recommends faketime",
    ]);
  });

  it.skipIf(!canMount)("reports the remedy when the packages cannot be installed", () => {
    standIn("apt-get", "exit 100");
    const run = setUp({ before: [without("/usr/bin/dig")] });
    expect(run.code).toBe(1);
    expect(run.stdout).toContain("apt-get update");
    expect(run.stderr).toMatch(/apt-get could not install bind9-dnsutils; repair the package sources/);
    expect(calls().some((it) => it.startsWith("npm"))).toBe(false);
  });
});
