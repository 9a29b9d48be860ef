/** Parameters of operations, with what they are for. */

export type Operation = Readonly<Record<string, unknown>>;

function query(name: string, type: "string" | "integer" | "boolean", description: string): Operation {
  return { name, in: "query", description, schema: { type, uniqueItems: true } };
}

const PATH_NAMES: ReadonlyMap<string, string> = new Map([
  ["name", "name of the object"],
  ["namespace", "namespace of the object"],
]);

export function inPath(
  name: string,
  description = PATH_NAMES.get(name) ?? "the rest of the path",
): Operation {
  return { name, in: "path", description, required: true, schema: { type: "string", uniqueItems: true } };
}

export const PRETTY = query("pretty", "string", "If 'true', the output is indented.");
export const DRY_RUN = query("dryRun", "string", "When present, nothing is stored. Valid value: All.");
export const FIELD_MANAGER = query("fieldManager", "string", "Name of the actor that makes the change.");
/** kubectl validates on the server where an operation has this parameter (KEP-2885). */
export const FIELD_VALIDATION = query(
  "fieldValidation",
  "string",
  "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
);
export const FORCE = query("force", "boolean", "Server-side apply: take fields over from other managers.");
export const WRITE = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
export const DELETE = [
  DRY_RUN,
  query("gracePeriodSeconds", "integer", "Seconds before the object is deleted."),
  query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
  query("propagationPolicy", "string", "Orphan, Background or Foreground."),
];
export const LIST = [
  query("allowWatchBookmarks", "boolean", "Ask for events of type BOOKMARK."),
  query("continue", "string", "The token of an earlier page."),
  query("fieldSelector", "string", "Restrict the list by fields."),
  query("labelSelector", "string", "Restrict the list by labels."),
  query("limit", "integer", "Greatest number of objects in the answer."),
  query("resourceVersion", "string", "What versions the answer may be served from."),
  query("resourceVersionMatch", "string", "How resourceVersion is meant."),
  query("sendInitialEvents", "boolean", "Begin a watch with the present state."),
  query("timeoutSeconds", "integer", "Limit of the call."),
  query("watch", "boolean", "Stream changes."),
];

const STREAM = [
  query("stdin", "boolean", "Pass the client's input on."),
  query("stdout", "boolean", "Send the output."),
  query("stderr", "boolean", "Send the error output."),
  query("tty", "boolean", "Use a terminal."),
  query("container", "string", "Container; may be left out where there is only one."),
];

const PROXY_PATH = [query("path", "string", "Path at the target.")];

/** By subresource: what streams, logs and proxies take. */
export const CONNECT: ReadonlyMap<string, readonly Operation[]> = new Map([
  ["attach", STREAM],
  ["exec", [query("command", "string", "Program and arguments; repeated."), ...STREAM]],
  ["portforward", [query("ports", "integer", "Ports, where the client uses WebSockets.")]],
  ["proxy", PROXY_PATH],
]);

export const LOG: readonly Operation[] = [
  query("container", "string", "Container; may be left out where there is only one."),
  query("follow", "boolean", "Follow the log: keep sending new lines."),
  query("insecureSkipTLSVerifyBackend", "boolean", "Do not check the kubelet's certificate."),
  query("limitBytes", "integer", "Greatest number of bytes."),
  query("previous", "boolean", "The log of the container's last life."),
  query("sinceSeconds", "integer", "Lines of the last seconds."),
  query("stream", "string", "All, Stdout or Stderr."),
  query("tailLines", "integer", "Lines from the end."),
  query("timestamps", "boolean", "Put the time before each line."),
];
