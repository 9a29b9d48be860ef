import { ensureBundle } from "./bundles.mjs";

/** Before labs: the bundle of which they run is there before several of them start at once. */
export async function setup() {
  await ensureBundle();
}
