import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { writeTar } from "../../scripts/image/tar.ts";
import { filesBelow } from "../../scripts/release/files.ts";

/** A registry on loopback: of npm packages, from folders, and of OCI layouts, as far as npm and Helm ask for them. */

export interface Registry extends AsyncDisposable {
  readonly host: string;
}

export interface Content {
  /** Folders of npm packages. */
  readonly packages: readonly string[];
  /** Folders of OCI layouts with one artifact each, by repository. */
  readonly layouts: ReadonlyMap<string, string>;
}

export async function serveRegistry({ packages, layouts }: Content): Promise<Registry> {
  const npm = new Map(packages.map((it) => [nameOf(it), it]));
  const archives = new Map<string, Buffer>();
  const answerNpm = (path: string, request: IncomingMessage, response: ServerResponse): void => {
    const folder = npm.get(path.replace(/\/-\/archive\.tgz$/, ""));
    if (folder === undefined) {
      response.writeHead(404).end("{}");
      return;
    }
    const archive = archives.get(folder) ?? archiveOf(folder);
    archives.set(folder, archive);
    response.end(path.endsWith(".tgz") ? archive : packument(folder, archive, request));
  };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "").slice(1);
    if (path.startsWith("v2/")) answerOci(path.slice(3), layouts, response);
    else answerNpm(path, request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly scripts?: object;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
const nameOf = (folder: string): string => manifestOf(folder).name;

function archiveOf(folder: string): Buffer {
  const files = filesBelow(folder, "package/").filter((it) => !/^package\/(vendor|doc)\//.test(it.path));
  return gzipSync(writeTar(files, 0), { level: 1 });
}

/** What npm reads about a package before it fetches it. */
function packument(folder: string, archive: Buffer, { headers }: IncomingMessage): string {
  const { scripts: _scripts, ...manifest } = manifestOf(folder);
  const { name, version } = manifest;
  const dist = {
    tarball: `http://${headers.host}/${name}/-/archive.tgz`,
    integrity: `sha512-${createHash("sha512").update(archive).digest("base64")}`,
  };
  return JSON.stringify({
    name,
    "dist-tags": { latest: version },
    versions: { [version]: { ...manifest, dist } },
  });
}

/** The part of the OCI distribution API that pulls: manifests by tag or digest, and blobs. */
function answerOci(path: string, layouts: ReadonlyMap<string, string>, response: ServerResponse): void {
  const [, repository = "", , reference = ""] = /^(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
  const layout = layouts.get(repository);
  if (layout === undefined) {
    response.writeHead(path === "" ? 200 : 404).end();
    return;
  }
  const { manifests } = JSON.parse(readFileSync(join(layout, "index.json"), "utf8")) as {
    manifests: { mediaType: string; digest: string; annotations: Readonly<Record<string, string>> }[];
  };
  const tagged = manifests.find(
    (it) => it.digest === reference || it.annotations["org.opencontainers.image.ref.name"] === reference,
  );
  const digest = tagged?.digest ?? reference;
  const data = readFileSync(join(layout, "blobs", "sha256", digest.replace("sha256:", "")));
  response.writeHead(200, {
    "content-type": tagged?.mediaType ?? "application/octet-stream",
    "content-length": data.length,
    "docker-content-digest": digest,
  });
  response.end(data);
}
