import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type TarEntry, writeTar } from "./tar.ts";

/** An image as a folder (OCI image layout 1.1), which registries' tools copy from. The same content has the same digests. */

export interface ImageSpec {
  readonly name: string;
  readonly version: string;
  readonly architecture: "amd64" | "arm64";
  readonly layers: readonly { readonly what: string; readonly entries: readonly TarEntry[] }[];
  readonly entrypoint: readonly string[];
  readonly env: readonly string[];
  readonly user: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Of all files. Unit: seconds since the Unix epoch. */
  readonly modified: number;
  /** 1 to 9. */
  readonly compression: number;
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const MEDIA = "application/vnd.oci.image";

/** Writes the layout into `folder`, and returns the digest of the image's manifest. */
export function writeLayout(folder: string, spec: ImageSpec): string {
  const blobs = join(folder, "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const put = (mediaType: string, data: Uint8Array): Descriptor => {
    const digest = sha256(data);
    writeFileSync(join(blobs, digest.slice("sha256:".length)), data);
    return { mediaType, digest, size: data.length };
  };
  const putJson = (kind: string, value: object): Descriptor =>
    put(`${MEDIA}.${kind}.v1+json`, Buffer.from(JSON.stringify(value)));

  const tars = spec.layers.map(({ what, entries }) => ({ what, tar: writeTar(entries, spec.modified) }));
  const layers = tars.map(({ tar }) =>
    put(`${MEDIA}.layer.v1.tar+gzip`, gzipSync(tar, { level: spec.compression })),
  );
  const created = new Date(spec.modified * 1000).toISOString().replace(".000", "");
  const platform = { architecture: spec.architecture, os: "linux" };
  const config = putJson("config", {
    created,
    ...platform,
    config: {
      User: spec.user,
      Env: spec.env,
      Entrypoint: spec.entrypoint,
      WorkingDir: "/",
      Labels: spec.labels,
    },
    rootfs: { type: "layers", diff_ids: tars.map(({ tar }) => sha256(tar)) },
    history: tars.map(({ what }) => ({ created, created_by: what })),
  });
  const manifest = putJson("manifest", {
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config,
    layers,
    annotations: spec.labels,
  });
  const index = {
    schemaVersion: 2,
    mediaType: `${MEDIA}.index.v1+json`,
    manifests: [
      {
        ...manifest,
        platform,
        annotations: {
          "org.opencontainers.image.ref.name": spec.version,
          // By which container engines name what they load.
          "io.containerd.image.name": `${spec.name}:${spec.version}`,
        },
      },
    ],
  };
  writeFileSync(join(folder, "index.json"), JSON.stringify(index));
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return manifest.digest;
}

function sha256(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
