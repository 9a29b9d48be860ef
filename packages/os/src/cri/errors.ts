import { Code, ConnectError } from "@connectrpc/connect";
import { FleetError } from "@fairlead/base/errors.ts";

interface Call {
  readonly method: string;
  readonly socket: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Whether the runtime does not know the sandbox. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.NotFound;
}

/** Explains the error of a call to the runtime. */
export function criError(cause: unknown, { method, socket, timeoutMs, signal }: Call): FleetError {
  const what = `cannot call ${method} of the container runtime at ${socket}`;
  if (signal.aborted) return new FleetError("ABORTED", `${what}: the call was cancelled`, { cause });
  const system = systemCode(cause);
  const remedy = system === undefined ? undefined : REMEDIES[system];
  if (remedy !== undefined)
    return new FleetError("CRI_UNAVAILABLE", `${what}: ${remedy}`, { cause, retriable: true });
  const { code, rawMessage } = ConnectError.from(cause);
  if (code === Code.DeadlineExceeded)
    return new FleetError("TIMED_OUT", `${what}: no answer within ${timeoutMs} ms`, {
      cause,
      retriable: true,
    });
  if (code === Code.Unimplemented)
    return new FleetError(
      "CRI_UNSUPPORTED",
      `${what}: it does not serve runtime.v1; upgrade to containerd 1.6 or CRI-O 1.23 or newer, and check that containerd's CRI plugin is enabled`,
      { cause },
    );
  if (code === Code.Unavailable || system !== undefined)
    return new FleetError("CRI_UNAVAILABLE", `${what}: ${rawMessage}`, { cause, retriable: true });
  return new FleetError("CRI_FAILED", `${what}: ${rawMessage}`, { cause, retriable: true });
}

const DENIED = "permission denied; run as root";
const REMEDIES: Readonly<Record<string, string>> = {
  ENOENT: "the socket does not exist; check that the runtime runs and that its socket is mounted",
  ENOTDIR: "the path is not a socket",
  ENOTSOCK: "the path is not a socket",
  ECONNREFUSED: "nothing listens on the socket; check that the runtime runs",
  EACCES: DENIED,
  EPERM: DENIED,
};

/** The code of the system's error at the root. */
function systemCode(error: unknown): string | undefined {
  for (let at = error, depth = 0; Error.isError(at) && depth < 8; at = at.cause, depth++)
    if ("code" in at && typeof at.code === "string") return at.code;
  return undefined;
}
