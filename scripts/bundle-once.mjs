// Set up for labs: the bundle of which they run is there before several of them start at once.
export { ensureBundle as setup } from "./bundles.mjs";
