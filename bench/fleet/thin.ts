/**
 * An importer of which nothing is left but its connection: it takes the bytes of the watch and finds the number of the
 * change in them. What else an importer does costs its own machine, and not the one on which a bench runs a hundred.
 */

import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { ENDPOINT_SLICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { collectionPath, withQuery } from "@fairlead/kube/client/path.ts";
import { changeOf } from "./changes.ts";

/** In an event the first address of its first endpoint that is of the network of changes. */
const BEFORE_CHANGE = '"addresses":["';
const CHANGE = `${BEFORE_CHANGE}172.`;
const LINE_FEED = 0x0a;

/** Resolves when the server has begun to answer. */
export async function watchThinly(
  { server, ca, credentials }: ClusterConfig,
  onChange: (change: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const { certificate, key } = await credentials.current(signal);
  const path = withQuery(collectionPath(ENDPOINT_SLICE_IMPORTS, VIEW_NAMESPACE), { watch: true });
  const asked = request(`${server}${path}`, {
    agent: new Agent({ keepAlive: false }),
    ...(ca === undefined ? {} : { ca }),
    ...(certificate === undefined ? {} : { cert: certificate }),
    ...(key === undefined ? {} : { key }),
  });
  // It ends with the process.
  asked.on("error", (error) => {
    if (!signal.aborted) throw error;
  });
  signal.addEventListener("abort", () => asked.destroy());
  asked.end();
  const [answer] = (await once(asked, "response", { signal })) as [IncomingMessage];
  if (answer.statusCode !== 200) throw new Error(`a watch of the view: ${answer.statusCode}`);
  let rest: Buffer = Buffer.alloc(0);
  answer.on("data", (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf(LINE_FEED) + 1;
    for (const it of changesIn(bytes.subarray(0, end))) onChange(it);
    rest = bytes.subarray(end);
  });
}

function* changesIn(lines: Buffer): Generator<number> {
  for (let at = lines.indexOf(CHANGE); at >= 0; at = lines.indexOf(CHANGE, at + CHANGE.length)) {
    const start = at + BEFORE_CHANGE.length;
    yield changeOf(lines.toString("latin1", start, lines.indexOf('"', start)));
  }
}
