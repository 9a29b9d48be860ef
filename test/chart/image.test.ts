import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { buildBundle } from "../../scripts/bundle.ts";
import { buildImage, IMAGE_NAME } from "../../scripts/image/build.ts";
import { bundledParts } from "../../scripts/image/parts.ts";
import { TOOLS } from "../../scripts/image/tools.ts";
import { type TarEntry, writeTar } from "../../scripts/image/tar.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { startTestServer } from "../../packages/apiserver/test/support.ts";
import { checkout } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";

/** The image: made of the same content the same, and complete, which a program shows that sees nothing else. */

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

let work = "";
let image = "";
let root = "";
let digests: string[] = [];
beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), "image-"));
  // The user of the image must be able to traverse it.
  chmodSync(work, 0o755);
  for (const name of ["first", "second"]) {
    const packages = bundledParts(await buildBundle(join(work, name)));
    const options = { bundle: join(work, name), packages, folder: join(work, `${name}.oci`) };
    digests.push(await buildImage({ ...options, compression: 1 }));
  }
  image = join(work, "first.oci");
  root = join(work, "root");
  mkdirSync(root);
  for (const layer of manifest().layers) await exec("tar", ["-C", root, "-xzf", blobPath(layer)]);
}, 120_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));

const blobPath = ({ digest }: Descriptor): string =>
  join(image, "blobs", "sha256", digest.replace("sha256:", ""));
const json = (path: string): unknown => JSON.parse(readFileSync(path, "utf8"));
const sha256 = (data: Uint8Array): string => `sha256:${createHash("sha256").update(data).digest("hex")}`;

function manifest(): { readonly config: Descriptor; readonly layers: readonly Descriptor[] } {
  const index = json(join(image, "index.json")) as { manifests: Descriptor[] };
  const [only] = index.manifests;
  if (only === undefined) throw new Error("the index names no image");
  return json(blobPath(only)) as { config: Descriptor; layers: Descriptor[] };
}

describe("an archive", () => {
  const entries: readonly TarEntry[] = [
    { type: "directory", path: "a", mode: 0o755 },
    { type: "file", path: "a/empty", mode: 0o644, data: new Uint8Array() },
    { type: "file", path: `a/${"long/".repeat(30)}name`, mode: 0o755, data: Buffer.alloc(1025, "x") },
  ];

  it("is as tar reads it", async () => {
    const path = join(work, "archive.tar");
    await writeFile(path, writeTar(entries, 86_400));
    const { stdout } = await exec("tar", ["--utc", "--numeric-owner", "-tvf", path]);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((it) => it.replaceAll(/ +/g, " "))).toEqual([
      "drwxr-xr-x 0/0 0 1970-01-02 00:00 a/",
      "-rw-r--r-- 0/0 0 1970-01-02 00:00 a/empty",
      `-rwxr-xr-x 0/0 1025 1970-01-02 00:00 a/${"long/".repeat(30)}name`,
    ]);
  });

  it("rejects a name that is too long for the format", () => {
    const data = new Uint8Array();
    expect(() => writeTar([{ type: "file", path: "x".repeat(101), mode: 0o644, data }], 0)).toThrow(
      /too long/,
    );
  });
});

describe("the image", () => {
  it("is the same each time that it is built", () => {
    expect(digests[1]).toBe(digests[0]);
    for (const file of ["index.json", "oci-layout"])
      expect(readFileSync(join(work, "second.oci", file))).toEqual(readFileSync(join(image, file)));
    expect(readdirSync(join(work, "second.oci", "blobs", "sha256")).toSorted()).toEqual(
      readdirSync(join(image, "blobs", "sha256")).toSorted(),
    );
  });

  it("matches its descriptors: every blob by digest and size, and each layer by its unpacked digest", async () => {
    const { config, layers } = manifest();
    for (const it of [config, ...layers]) {
      const data = readFileSync(blobPath(it));
      expect({ digest: sha256(data), size: data.length }).toEqual({ digest: it.digest, size: it.size });
    }
    const { rootfs } = json(blobPath(config)) as { rootfs: { diff_ids: string[] } };
    const { stdout } = await exec("sh", [
      "-c",
      'for it; do gzip -dc "$it" | sha256sum; done',
      "sh",
      ...layers.map(blobPath),
    ]);
    expect(stdout.match(/[0-9a-f]{64}/g)?.map((it) => `sha256:${it}`)).toEqual(rootfs.diff_ids);
  });

  it("reports its version, and runs as a user that nodes do not have", () => {
    expect(json(blobPath(manifest().config))).toMatchObject({
      os: "linux",
      config: {
        User: "65532:65532",
        Entrypoint: ["/usr/local/bin/fairlead"],
        Labels: {
          "org.opencontainers.image.version": VERSION,
          "org.opencontainers.image.licenses": "Apache-2.0",
        },
      },
    });
  });

  it("starts as the Containerfile's does", () => {
    const text = readFileSync(join(checkout, "images", "Containerfile"), "utf8");
    expect(text).toContain(`--tag ${IMAGE_NAME}:${VERSION} `);
    expect(text).toContain(`org.opencontainers.image.version="${VERSION}"`);
    expect(text).toContain('ENTRYPOINT ["/usr/local/bin/fairlead"]');
    expect(text).toContain("USER 65532:65532");
    const installed = /apt-get install .*--no-install-recommends ([^&]+)/.exec(
      text.replaceAll("\\\n", ""),
    )?.[1];
    // In the base, which is Debian's.
    const ofBase = new Set(["coreutils", "dash", "mount", "util-linux"]);
    expect(installed?.trim().split(/ +/).toSorted()).toEqual(
      Object.keys(TOOLS.programs)
        .filter((it) => !ofBase.has(it))
        .toSorted(),
    );
    const ignore = readFileSync(join(checkout, ".dockerignore"), "utf8").split("\n");
    for (const [, sources = ""] of text.matchAll(/^COPY ((?:[\w./-]+ )+)[\w./-]+$/gm))
      for (const source of sources.trim().split(" "))
        expect({
          source,
          exists: existsSync(join(checkout, source)),
          isCopied: ignore.includes(`!${source}`),
        }).toEqual({ source, exists: true, isCopied: true });
  });
});

interface Sbom {
  readonly SPDXID: string;
  readonly packages: readonly SbomPackage[];
  readonly files: readonly {
    readonly SPDXID: string;
    readonly fileName: string;
    readonly checksums: readonly { readonly algorithm: string; readonly checksumValue: string }[];
  }[];
  readonly relationships: readonly {
    readonly spdxElementId: string;
    readonly relatedSpdxElement: string;
    readonly relationshipType: string;
  }[];
}

interface SbomPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo?: string;
  readonly licenseDeclared: string;
  readonly checksums?: readonly { readonly checksumValue: string }[];
  readonly externalRefs?: readonly { readonly referenceLocator: string }[];
}

describe("the image's bill of materials", () => {
  const sbom = (): Sbom => json(`${image}.spdx.json`) as Sbom;

  it("is reproducible, and names its image", () => {
    expect(readFileSync(join(work, "second.oci.spdx.json"))).toEqual(readFileSync(`${image}.spdx.json`));
    const [first] = sbom().packages;
    expect(first).toMatchObject({ name: IMAGE_NAME, versionInfo: VERSION });
    expect(`sha256:${first?.checksums?.[0]?.checksumValue}`).toBe(digests[0]);
  });

  it("lists every file of the image with its digest, and no other", () => {
    const said = new Map(
      sbom().files.map((it) => [it.fileName, it.checksums.map((sum) => sum.checksumValue)]),
    );
    const present = readdirSync(root, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
    expect(present.length).toBeGreaterThan(30);
    for (const it of present) {
      const path = join(it.parentPath, it.name);
      const name = `./${relative(root, path)}`;
      const sum = createHash("sha256").update(readFileSync(path)).digest("hex");
      expect({ name, sum: said.get(name)?.[1] }).toEqual({ name, sum });
    }
    expect(said.size).toBe(present.length);
  });

  it("lists bundled packages as in the lock file, Node and its libraries, with versions and licences", () => {
    const { packages } = sbom();
    const at = new Set(packages.map((it) => `${it.name} ${it.versionInfo}`));
    const lock = json(join(checkout, "package-lock.json")) as {
      packages: Record<string, { version?: string; dev?: boolean }>;
    };
    const dependencies = readdirSync(join(checkout, "packages")).flatMap((it) => {
      const described = json(join(checkout, "packages", it, "package.json"));
      return Object.keys((described as { dependencies: Record<string, string> }).dependencies);
    });
    // The lab's alone, which needs a checkout; types; and our own.
    const apart = /^(koffi|@commander-js\/extra-typings|@fairlead\/.*)$/;
    for (const name of new Set(dependencies.filter((it) => !apart.test(it))))
      expect([...at]).toContain(`${name} ${lock.packages[`node_modules/${name}`]?.version}`);
    expect([...at]).toContain(`node ${process.versions.node}`);
    expect([...at]).toContain(`openssl ${process.versions.openssl}`);
    for (const it of packages) expect(it).toHaveProperty("versionInfo");
    const bundled = packages.filter((it) => it.SPDXID.startsWith(`SPDXRef-fairlead-${VERSION}`));
    expect(bundled.length).toBeGreaterThan(20);
    for (const it of bundled)
      for (const license of it.licenseDeclared.replaceAll(/[()]/g, "").split(" AND "))
        expect(license).toMatch(/^(MIT|ISC|0BSD|Apache-2\.0|BSD-[23]-Clause)$/);
  });

  it("lists the Debian packages of the tools with versions and the digests of their archives", () => {
    const { packages } = sbom();
    for (const name of [...Object.keys(TOOLS.programs), ...TOOLS.libraries])
      expect(packages.find((it) => it.name === name)).toMatchObject({
        versionInfo: expect.stringMatching(/^\d/) as string,
        checksums: [
          { algorithm: "SHA256", checksumValue: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
        ],
        externalRefs: [{ referenceLocator: expect.stringContaining(`pkg:deb/debian/${name}@`) as string }],
      });
  });

  it("is consistent: every part belongs to another one, and every reference exists", () => {
    const { SPDXID, packages, files, relationships } = sbom();
    const ids = [SPDXID, ...packages.map((it) => it.SPDXID), ...files.map((it) => it.SPDXID)];
    expect(new Set(ids).size).toBe(ids.length);
    for (const it of ids) expect(it).toMatch(/^SPDXRef-[A-Za-z0-9.-]+$/);
    for (const it of relationships) {
      expect(ids).toContain(it.spdxElementId);
      expect(ids).toContain(it.relatedSpdxElement);
    }
    const contained = new Set(
      relationships
        .filter((it) => it.relationshipType !== "GENERATED_FROM")
        .map((it) => it.relatedSpdxElement),
    );
    expect(ids.filter((it) => it !== SPDXID && !contained.has(it))).toEqual([]);
  });

  it("contains the texts of third-party licences", () => {
    const text = readFileSync(join(root, "usr/share/doc/fairlead/NOTICES"), "utf8");
    for (const { SPDXID, name, versionInfo } of sbom().packages)
      if (SPDXID.startsWith(`SPDXRef-fairlead-${VERSION}-`))
        expect(text).toContain(`\n${name} ${versionInfo} (`);
    expect(text).toContain("Permission is hereby granted, free of charge");
    // Of a package that has its licences at the beginning of its files only.
    expect(text).toMatch(/@bufbuild\/protobuf [^]*Redistributions in binary form must reproduce the above/);
    expect(text).not.toContain("Its package has no other text");
  });
});

/** A separate root with only the image's files; as the image's user, in new namespaces. */
const inImage = ["--mount", "--pid", "--fork", "--kill-child", "chroot", "--userspec=65532:65532"];
const isRoot = process.getuid?.() === 0;

describe.skipIf(!isRoot)("the image in a chroot (needs root)", () => {
  const run = (args: readonly string[]) =>
    exec("unshare", [...inImage, root, "/usr/local/bin/fairlead", ...args], {
      timeoutMs: 30_000,
      allowFailure: true,
    });

  /** As root, which `fairlead node` is; in a network namespace of its own. */
  const runTool = (...args: readonly string[]) =>
    exec("unshare", ["--mount", "--net", "chroot", root, ...args], {
      env: { PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
      input: "",
    });

  it.each([
    ["ip", "-Version"],
    ["nft", "--version"],
    ["wg", "--version"],
    ["wireguard-go", "--version"],
    ["nsenter", "--version"],
    ["unshare", "--version"],
    ["mount", "--version"],
    ["umount", "--version"],
    ["sysctl", "--version"],
    ["sh", "-c", "echo shell"],
    ["cat"],
    ["mkdir", "--version"],
  ])("has the program %s", async (...args) => {
    await runTool(...args);
  });

  it("changes links and tables of a network namespace", async () => {
    const script = [
      "ip link add name v0 type veth peer name v1",
      "nft add table inet t",
      "nft -j list ruleset",
      "ip -j link show dev v0",
    ];
    const { stdout } = await runTool("sh", "-ec", script.join("\n"));
    expect(stdout).toContain('"name": "t"');
    expect(stdout).toContain('"ifname":"v0"');
  });

  it("has the foreign function interface, without which tunnels are not probed", async () => {
    const script =
      'import("/opt/fairlead/node_modules/koffi/index.js").then(({ default: it }) => console.log(it.load(null).func("int getpid()")() === process.pid))';
    expect((await runTool("/usr/local/bin/node", "-e", script)).stdout).toBe("true\n");
  });

  it.each([
    [["--version"], `fairlead ${VERSION}\n`],
    [["hub", "--help"], "run the controllers of a fleet's hub"],
    [["dns", "--help"], "clusterset.local"],
  ])("runs fairlead %j", async (args, said) => {
    const { exitCode, stdout, stderr } = await run(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain(said);
  });

  it("installs the kinds of a member in a cluster, and runs the member there", async () => {
    await using server = await startTestServer();
    await using client = connect(await loadKubeconfig(server.server.kubeconfig), systemDeps(silentLogger));
    const kubeconfig = "/tmp/kubeconfig";
    await writeFile(join(root, kubeconfig), readFileSync(server.server.kubeconfig), { mode: 0o644 });
    await server.kubectl(["create", "namespace", "fleet-system"]);
    const installed = await run(["crds", "install", "--role", "member", "--kubeconfig", kubeconfig]);
    expect(installed).toMatchObject({ exitCode: 0 });
    const { items } = await client.list(CUSTOM_RESOURCE_DEFINITIONS);
    expect(items.map((it) => it.metadata.name).toSorted()).toEqual(
      MEMBER_CRDS.map((it) => it.metadata.name).toSorted(),
    );

    const command = [...inImage, root, "/usr/local/bin/fairlead", "member", "--kubeconfig", kubeconfig];
    const holder = start("unshare", command, { stdio: "ignore" });
    const ended = once(holder, "exit");
    try {
      const key = objectKey("fleet-system", LEASES_OF.member[0]);
      await until(
        "the member leads",
        () => client.find(LEASES, key),
        (it) => (it?.spec?.holderIdentity ?? "") !== "",
      );
    } finally {
      // Changing its user freed the member from `--kill-child`, and its holder takes no SIGTERM: it is ended itself.
      const pids = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, "utf8").trim();
      process.kill(Number(pids), "SIGTERM");
      await ended;
    }
  });
});
