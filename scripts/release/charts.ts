import { mkdtempDisposableSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { writeArtifact } from "../image/layout.ts";
import { writeTar } from "../image/tar.ts";
import { root } from "../steps.ts";
import { type Archiving, filesBelow, writeTgz } from "./files.ts";

export const CHARTS = ["fairlead-hub", "fairlead-member", "fairlead-node", "fairlead-relay"] as const;

interface ChartManifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
}

/** A chart as `helm install` takes it. */
export function packChart(name: string, archiving: Archiving): Buffer {
  return writeTgz(filesBelow(join(root, "charts", name), `${name}/`), archiving);
}

/** An archive of an OCI layout with the chart, as `helm push` stores it in registries (Helm, "Use OCI-based registries"). */
export function chartLayout(name: string, chart: Uint8Array, modified: number): Buffer {
  const manifest = parse(readFileSync(join(root, "charts", name, "Chart.yaml"), "utf8")) as ChartManifest;
  using folder = mkdtempDisposableSync(join(tmpdir(), "fairlead-chart-"));
  writeArtifact(folder.path, {
    config: {
      mediaType: "application/vnd.cncf.helm.config.v1+json",
      data: Buffer.from(JSON.stringify(manifest)),
    },
    layers: [{ mediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", data: chart }],
    annotations: {
      "org.opencontainers.image.title": manifest.name,
      "org.opencontainers.image.version": manifest.version,
      "org.opencontainers.image.description": manifest.description,
      "org.opencontainers.image.created": new Date(modified * 1000).toISOString().replace(".000", ""),
    },
    references: { "org.opencontainers.image.ref.name": manifest.version },
  });
  return writeTar(filesBelow(folder.path, ""), modified);
}
