import type { Registry } from "#registry/registry.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import type { Addressed } from "./objects.ts";
import { isTrue } from "./path.ts";

/** Streams to pods as admission sees them: CONNECT, with the options of the query as the object. */

const KINDS: Readonly<Record<string, string>> = {
  exec: "PodExecOptions",
  attach: "PodAttachOptions",
  portforward: "PodPortForwardOptions",
};
const FLAGS = ["stdin", "stdout", "stderr", "tty"];

/** @throws {StatusError} when admission refuses the connection. */
export async function admitConnection(
  registry: Registry,
  of: Addressed,
  { user, query }: { readonly user: UserInfo; readonly query: URLSearchParams },
): Promise<void> {
  const kind = KINDS[of.subresource];
  if (kind === undefined) return;
  const request = { ...of, user, dryRun: false, fieldManager: "", warn: () => {} };
  const subject = {
    operation: "CONNECT",
    object: optionsOf(kind, query),
    old: undefined,
    kind: { group: "", version: "v1", kind },
  } as const;
  await registry.attempt(request, (write) => registry.admit(write, subject));
}

function optionsOf(kind: string, query: URLSearchParams): ApiObject {
  const ports = query.getAll("ports").flatMap((it) => it.split(",").map(Number));
  const container = query.get("container") ?? "";
  const command = query.getAll("command");
  return {
    kind,
    apiVersion: "v1",
    ...Object.fromEntries(FLAGS.filter((it) => isTrue(query.get(it))).map((it) => [it, true])),
    ...(container === "" ? {} : { container }),
    ...(kind === "PodExecOptions" ? { command: command.length === 0 ? null : command } : {}),
    ...(ports.length === 0 ? {} : { ports }),
  } as unknown as ApiObject;
}
