import { generateKeyPairSync, randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { buildBundle, buildOneFile } from "../../scripts/bundle.ts";
import { libraries, pinnedNode } from "../../scripts/image/content.ts";
import { buildRelease } from "../../scripts/release/build.ts";
import { bundledParts } from "../../scripts/image/parts.ts";
import { chartLayout, CHARTS, packChart } from "../../scripts/release/charts.ts";
import { prepareBlob } from "../../scripts/release/executable.ts";
import { npmPackage } from "../../scripts/release/npm.ts";
import { wireguardGo } from "@fairlead/os/wireguard/userspace.ts";
import { cannotUseContainerd } from "../support/containerd.ts";
import { checkout } from "../support/lab-fixture.ts";
import { readBlocks } from "../chart/install-page.ts";
import { until } from "../support/waiting.ts";
import { runContainer } from "./container.ts";
import { serveRegistry } from "./registry.ts";

/** What people install: each file is installed where nothing of the checkout is, and started. */

const ARCHITECTURE = process.arch === "arm64" ? "arm64" : "x64";
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HELM = join(checkout, "node_modules", ".tools", "helm");
const KUBECTL = join(checkout, "node_modules", ".tools", "kubectl");

let work = "";
let release = "";
let files: readonly string[] = [];
const key = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
const options = { modified: 86_400, compression: 1, signingKey: String(key) };

beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), "release-"));
  release = join(work, "release");
  files = await buildRelease({ ...options, folder: release, architectures: [ARCHITECTURE] });
}, 300_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));

const artefact = (name: string): string => join(release, name);
function folder(name: string): string {
  mkdirSync(join(work, name), { recursive: true });
  return join(work, name);
}

/** Runs a program with only the system and the folders of `path`. */
function run(path: readonly string[], command: string, ...args: readonly string[]): Promise<ExecResult> {
  const env = { PATH: [...path, SYSTEM_PATH].join(":"), HOME: folder("home") };
  return exec(command, args, { env, cwd: folder("home"), timeoutMs: 100_000 });
}

describe("the checksums of a release", () => {
  it("cover every file, and are verified by sha256sum", async () => {
    const { stdout } = await exec("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: release });
    const sums = new Set(["SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.pem"]);
    const expected = files.filter((it) => !sums.has(it)).map((it) => `${it}: OK`);
    expect(stdout.trimEnd().split("\n").toSorted()).toEqual(expected.toSorted());
  });

  it("are verified by the commands of docs/install.md", async () => {
    const page = readFileSync(join(checkout, "docs/install.md"), "utf8");
    const block = readBlocks(page).find((it) => it.heading === "Verify a release");
    const { stdout } = await exec("sh", ["-ec", block?.text ?? ""], { cwd: release });
    expect(stdout).toMatch(/^Signature Verified Successfully\n(?:.+: OK\n){10,}$/);
  });

  it("have a signature that openssl verifies, and refuses after a change of one byte", async () => {
    const verify = (sums: string) => {
      const read = ["-rawin", "-in", sums, "-sigfile", "SHA256SUMS.sig"];
      const args = ["pkeyutl", "-verify", "-pubin", "-inkey", "SHA256SUMS.pem", ...read];
      return exec("openssl", args, { cwd: release, allowFailure: true });
    };
    expect((await verify("SHA256SUMS")).stdout).toContain("Signature Verified Successfully");
    const changed = join(work, "changed");
    writeFileSync(changed, readFileSync(artefact("SHA256SUMS"), "utf8").replace("0", "1"));
    expect((await verify(changed)).exitCode).toBe(1);
  });
});

describe("the bill of materials of the executable", () => {
  it("names the executable by its digest, Node, koffi and the bundled packages", async () => {
    const name = `fairlead-linux-${ARCHITECTURE}`;
    const sbom = JSON.parse(readFileSync(artefact(`${name}.spdx.json`), "utf8")) as {
      readonly packages: readonly {
        readonly name: string;
        readonly checksums?: readonly { checksumValue: string }[];
      }[];
    };
    const { stdout } = await exec("sha256sum", [artefact(name)]);
    expect(stdout).toContain(`${sbom.packages[0]?.checksums?.[0]?.checksumValue} `);
    const names = sbom.packages.map((it) => it.name);
    expect(names).toEqual(
      expect.arrayContaining(["fairlead", "node", "openssl", "koffi", "commander", "undici"]),
    );
  });
});

describe("a second build", () => {
  it("makes the same npm package and charts", async () => {
    const bundle = folder("bundle");
    const again = new Map([
      [`fairlead-${VERSION}.tgz`, npmPackage(bundle, bundledParts(await buildBundle(bundle)), options)],
    ]);
    for (const name of CHARTS) {
      const chart = packChart(name, options);
      again.set(`${name}-${VERSION}.tgz`, chart);
      again.set(`${name}-${VERSION}.oci.tar`, chartLayout(name, chart, options.modified));
    }
    for (const [name, data] of again)
      expect({ name, same: data.equals(readFileSync(artefact(name))) }).toEqual({ name, same: true });
  });

  it("makes the same content of the single executable, compiled code included", async () => {
    const blobs = ["first", "second"].map(async (name) => {
      await buildOneFile(join(folder(name), "fairlead.cjs"));
      return readFileSync(await prepareBlob({ architecture: ARCHITECTURE, work: folder(name) }));
    });
    const [first, second] = await Promise.all(blobs);
    expect(first?.equals(second ?? Buffer.of())).toBe(true);
  }, 120_000);
});

describe("the npm package", () => {
  let bin = "";
  const node = pinnedNode().replace(/\/node$/, "");
  beforeAll(async () => {
    const packages = ["koffi", `@koromix/koffi-linux-${ARCHITECTURE}`];
    await using registry = await serveRegistry({
      packages: packages.map((it) => join(checkout, "node_modules", it)),
      layouts: new Map(),
    });
    const prefix = folder("npm");
    const flags = ["--prefix", prefix, "--registry", `http://${registry.host}/`, "--no-audit", "--no-fund"];
    await run([node], "npm", "install", "--global", ...flags, artefact(`fairlead-${VERSION}.tgz`));
    bin = join(prefix, "bin");
  }, 60_000);

  it("installs a command that runs on Node 24", async () => {
    expect((await run([bin, node], "fairlead", "version")).stdout).toBe(`fairlead ${VERSION}\n`);
  });

  it("installs the native library that it needs", async () => {
    const at = join(bin, "..", "lib", "node_modules", "fairlead", "node_modules");
    const script = `console.log(require(${JSON.stringify(join(at, "koffi"))}).load(null).func("int getpid()")() === process.pid)`;
    expect((await run([node], "node", "-e", script)).stdout).toBe("true\n");
  });

  it("says which Node it needs if it is started on an older one", async () => {
    const older = folder("older");
    const script = join(bin, "..", "lib", "node_modules", "fairlead", "lib", "start.mjs");
    const code = `Object.defineProperty(process.versions, "node", { value: "20.1.0" }); import(${JSON.stringify(script)});`;
    writeFileSync(join(older, "old.mjs"), code);
    const { stderr, exitCode } = await exec(join(node, "node"), [join(older, "old.mjs")], {
      allowFailure: true,
    });
    expect({ stderr, exitCode }).toEqual({
      stderr: expect.stringContaining("fairlead: needs Node 24 or newer") as string,
      exitCode: 1,
    });
  });

  it.runIf(process.arch === "x64")("is a plugin of kubectl", async () => {
    const tools = folder("tools");
    await exec("ln", ["-s", KUBECTL, tools]);
    expect((await run([bin, node, tools], "kubectl", "fairlead", "version")).stdout).toBe(
      `fairlead ${VERSION}\n`,
    );
    const { stdout } = await run([bin, node, tools], "kubectl", "__complete", "fairlead", "lab", "st");
    expect(stdout).toMatch(/^status\t.+\n:4\n$/);
  });
});

describe.runIf(process.getuid?.() === 0)("the Debian package", () => {
  let root = "";
  beforeAll(async () => {
    root = folder("root");
    for (const { files: of } of await libraries(pinnedNode()))
      for (const it of of)
        if (it.type === "file") {
          mkdirSync(join(root, it.path, ".."), { recursive: true });
          writeFileSync(join(root, it.path), it.data, { mode: it.mode });
        }
    mkdirSync(join(root, "var/lib/dpkg/info"), { recursive: true });
    mkdirSync(join(root, "var/lib/dpkg/updates"));
    for (const it of ["status", "available"]) writeFileSync(join(root, "var/lib/dpkg", it), "");
    const name = files.find((it) => it.endsWith(".deb")) ?? "";
    // What it depends on is there, as files of no package.
    await exec("dpkg", [`--root=${root}`, "--force-depends", "--install", artefact(name)], {
      timeoutMs: 60_000,
    });
  }, 60_000);

  it("is installed by dpkg into an empty root, and runs there", async () => {
    const { stdout } = await exec("chroot", [root, "/usr/bin/fairlead", "version"]);
    expect(stdout).toBe(`fairlead ${VERSION}\n`);
    expect((await exec("chroot", [root, "/usr/bin/kubectl-fairlead", "version"])).stdout).toBe(stdout);
  });

  it("leaves its files as its list of files has them", async () => {
    const { stdout } = await exec("dpkg", [`--root=${root}`, "--listfiles", "fairlead"]);
    expect(stdout).toContain("/usr/bin/fairlead\n");
    expect(stdout).toContain("/usr/share/doc/fairlead/NOTICES\n");
    expect(stdout).toContain("/usr/share/bash-completion/completions/fairlead\n");
  });
});

describe("the single executable", () => {
  const fairlead = (...args: readonly string[]): Promise<ExecResult> =>
    run([folder("bin")], join(folder("bin"), "fairlead"), ...args);
  beforeAll(async () => {
    await exec("cp", [artefact(`fairlead-linux-${ARCHITECTURE}`), join(folder("bin"), "fairlead")]);
    chmodSync(join(folder("bin"), "fairlead"), 0o755);
  });

  it("runs without Node", async () => {
    expect((await fairlead("version")).stdout).toBe(`fairlead ${VERSION}\n`);
  });

  it("ends quietly if the reader of its output has gone", async () => {
    const script = 'set -o pipefail; "$0" crds print --role hub | true; echo $?';
    const { stdout, stderr } = await run([], "bash", "-c", script, join(folder("bin"), "fairlead"));
    expect({ stdout, stderr }).toEqual({ stdout: "141\n", stderr: "" });
  });

  it("is one of its programs if it is called by that name", async () => {
    await exec("ln", ["-sf", "fairlead", join(folder("bin"), "net-crd-installer")]);
    const { stderr, exitCode } = await exec(join(folder("bin"), "net-crd-installer"), ["--nonsense"], {
      allowFailure: true,
    });
    expect({ stderr, exitCode }).toEqual({
      stderr: expect.stringMatching(/^net-crd-installer: unknown option '--nonsense'/) as string,
      exitCode: 2,
    });
  });

  it("starts the programs of a lab, and the lab's containers, from itself", async () => {
    const up = await fairlead("lab", "up", "--members", "1", "--nodes", "1");
    try {
      expect(up.stdout).toContain("Lab demo is up: a hub and 1 member");
      const manifest = join(work, "pod.yaml");
      const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "echo", namespace: "default" } };
      const containers = [{ name: "echo", image: "fairlead.dev/echo", args: ["--port", "8080"] }];
      writeFileSync(manifest, JSON.stringify({ ...pod, spec: { containers } }));
      const kubectl = (...args: readonly string[]): Promise<ExecResult> =>
        run([join(KUBECTL, "..")], join(folder("bin"), "fairlead"), "lab", "kubectl", "member-1", ...args);
      await kubectl("apply", "-f", manifest);
      await kubectl("wait", "--for=condition=Ready", "pod/echo", "--timeout=60s");
      expect((await fairlead("lab", "status")).stdout).toMatch(/member-1 .* 1\/1 +1\/1/);
      const kubeconfig = (await fairlead("lab", "kubeconfig")).stdout.trim();
      const versions = await fairlead("version", "--kubeconfig", kubeconfig, "--hub-context", "hub");
      expect(versions.stdout).toBe(
        [
          "PROGRAM           VERSION   SKEW",
          `client            ${VERSION}     none`,
          `hub               ${VERSION}     -`,
          `member member-1   ${VERSION}     none\n`,
        ].join("\n"),
      );
    } finally {
      expect((await fairlead("lab", "down")).stdout).toContain("Lab demo is down");
    }
  }, 120_000);
});

describe.runIf(process.getuid?.() === 0 && cannotUseContainerd === undefined)(
  "a container of node agents",
  () => {
    it("leaves the network namespace, its devices and wireguard-go behind when it ends", async () => {
      const layout = folder("image");
      await exec("tar", ["-C", layout, "-xf", artefact(`fairlead-image-${VERSION}-${ARCHITECTURE}.oci.tar`)]);
      const rootfs = folder("container/rootfs");
      const blobs = join(layout, "blobs/sha256");
      const { manifests } = JSON.parse(readFileSync(join(layout, "index.json"), "utf8")) as {
        manifests: { digest: string }[];
      };
      const blob = (digest: string): string => join(blobs, digest.replace("sha256:", ""));
      const { layers } = JSON.parse(readFileSync(blob(manifests[0]?.digest ?? ""), "utf8")) as {
        layers: { digest: string }[];
      };
      for (const it of layers) await exec("tar", ["-C", rootfs, "-xzf", blob(it.digest)]);

      const [state, cgroup] = ["/var/lib/fairlead", `/sys/fs/cgroup/fairlead-test-${randomUUID()}`];
      const { command, args } = wireguardGo("fl-wg00", { cgroup });
      const quoted = [command, ...args].map((it) => `'${it.replaceAll("'", `'\\''`)}'`).join(" ");
      const script = [
        `: >${state}/fleet`,
        `unshare --net=${state}/fleet -- ip link set dev lo up`,
        // Refused where /proc/sys is read-only, as in containers that are not privileged.
        `nsenter --net=${state}/fleet -- sysctl --quiet --write net.ipv4.ip_forward=1`,
        `mkdir ${cgroup} ${state}/wireguard`,
        `cd ${state}/wireguard`,
        `${quoted} &`,
        // Until then wireguard-go looks for its device by name in its own namespace.
        "until [ -S fl-wg00.sock ]; do :; done",
        `ip link set fl-wg00 netns ${state}/fleet`,
        `mkdir ${state}/done`,
        "exec ip monitor",
      ];
      await using container = await runContainer(join(work, "container"), rootfs, script.join("\n"));
      await until(
        "the container has made its devices",
        () =>
          Promise.resolve({
            isDone: existsSync(container.onNode(`${state}/done`)),
            log: readFileSync(join(work, "container/log"), "utf8"),
          }),
        ({ isDone }) => isDone,
      );
      await container.end();

      const members = (): readonly string[] =>
        readFileSync(container.onNode(`${cgroup}/cgroup.procs`), "utf8")
          .trim()
          .split("\n")
          .filter(Boolean);
      await using cleanup = new AsyncDisposableStack();
      cleanup.defer(async () => {
        for (const it of members()) process.kill(Number(it), "SIGTERM");
        await until(
          "wireguard-go has ended",
          () => Promise.resolve(members()),
          (it) => it.length === 0,
        );
        rmdirSync(container.onNode(cgroup));
      });
      expect(members()).toHaveLength(1);
      const fleet = container.onNode(`${state}/fleet`);
      const { stdout } = await exec("nsenter", [`--net=${fleet}`, "--", "ip", "-o", "link"]);
      expect(stdout).toContain("fl-wg00");
      // Its agent's next container finds it by this socket.
      expect(existsSync(container.onNode(`${state}/wireguard/fl-wg00.sock`))).toBe(true);
    }, 60_000);
  },
);

describe.runIf(process.arch === "x64")("a chart", () => {
  it.for(CHARTS)("%s is read by Helm from its archive and from a registry", async (name) => {
    const layout = folder(`${name}.oci`);
    await exec("tar", ["-C", layout, "-xf", artefact(`${name}-${VERSION}.oci.tar`)]);
    await using registry = await serveRegistry({
      packages: [],
      layouts: new Map([[`charts/${name}`, layout]]),
    });
    const reference = `oci://${registry.host}/charts/${name}`;
    const pulled = folder("pulled");
    await run([], HELM, "pull", reference, "--version", VERSION, "--plain-http", "--destination", pulled);
    const archive = artefact(`${name}-${VERSION}.tgz`);
    expect(readFileSync(join(pulled, `${name}-${VERSION}.tgz`)).equals(readFileSync(archive))).toBe(true);
    expect((await run([], HELM, "show", "chart", archive)).stdout).toContain(`name: ${name}\n`);
    expect((await run([], HELM, "template", archive)).stdout).toContain("kind: ServiceAccount");
  });
});
