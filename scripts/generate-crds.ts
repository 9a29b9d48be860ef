import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chartFiles } from "./chart-files.ts";
import { crdManifests } from "./crd-manifests.ts";
import { rbacManifests } from "./rbac-manifests.ts";

/** Writes the manifests of our CustomResourceDefinitions to `docs/reference/crds/`, and their names into the charts. */
const root = fileURLToPath(new URL("../", import.meta.url));
const folder = `${root}docs/reference/crds/`;
mkdirSync(folder, { recursive: true });
mkdirSync(`${root}docs/reference/rbac/`, { recursive: true });
for (const [name, text] of crdManifests()) writeFileSync(`${folder}${name}`, text);
for (const [path, text] of chartFiles()) writeFileSync(`${root}${path}`, text);
for (const [path, text] of rbacManifests()) writeFileSync(`${root}${path}`, text);
