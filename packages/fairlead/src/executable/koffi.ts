import { getRawAsset } from "node:sea";
import { loadNative } from "./native.ts";

/** Takes the place of the package koffi in the single executable, which has that package's native library as an asset. */

interface Koffi {
  load(library: string | null): unknown;
  errno(): number;
}

const text = (asset: string): string => Buffer.from(getRawAsset(asset)).toString("utf8");

export const koffi = loadNative({
  name: "koffi.node",
  data: new Uint8Array(getRawAsset("koffi.node")),
  sha256: text("koffi.node.sha256"),
}) as Koffi;
