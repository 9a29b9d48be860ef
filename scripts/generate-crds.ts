import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { crdManifests } from "./crd-manifests.ts";

/** Writes the manifests of our CustomResourceDefinitions to `docs/reference/crds/`. */
const folder = fileURLToPath(new URL("../docs/reference/crds/", import.meta.url));
mkdirSync(folder, { recursive: true });
for (const [name, text] of crdManifests()) writeFileSync(`${folder}${name}`, text);
