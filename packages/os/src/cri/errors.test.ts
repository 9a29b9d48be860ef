import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { criError } from "./errors.ts";

const call = {
  method: "Version",
  socket: "/run/x.sock",
  timeoutMs: 5_000,
  signal: new AbortController().signal,
};
const system = (code: string): Error => Object.assign(new Error(`connect ${code} /run/x.sock`), { code });

it.each([
  ["an absent socket", system("ENOENT"), "CRI_UNAVAILABLE", /does not exist; check that the runtime runs/],
  ["a stopped runtime", system("ECONNREFUSED"), "CRI_UNAVAILABLE", /nothing listens/],
  ["a missing right", system("EACCES"), "CRI_UNAVAILABLE", /permission denied; run as root/],
  [
    "an error of the system below another",
    new ConnectError("internal", Code.Internal, undefined, undefined, system("ENOENT")),
    "CRI_UNAVAILABLE",
    /does not exist/,
  ],
  ["a runtime that is slow", new ConnectError("", Code.DeadlineExceeded), "TIMED_OUT", /within 5000 ms/],
  [
    "a runtime without this CRI",
    new ConnectError("unknown service", Code.Unimplemented),
    "CRI_UNSUPPORTED",
    /does not serve runtime.v1/,
  ],
  [
    "a runtime that starts",
    new ConnectError("not ready", Code.Unavailable),
    "CRI_UNAVAILABLE",
    /: not ready$/,
  ],
  ["any other error", new ConnectError("no space left", Code.Unknown), "CRI_FAILED", /: no space left$/],
])("%s is explained", (_, error, code, message) => {
  expect(criError(error, call)).toMatchObject({
    code,
    message: expect.stringMatching(
      /^cannot call Version of the container runtime at \/run\/x.sock: /,
    ) as string,
  });
  expect(criError(error, call).message).toMatch(message);
});

it("a call that was cancelled is reported as such, whatever its error", () => {
  const signal = AbortSignal.abort();
  expect(criError(system("ENOENT"), { ...call, signal })).toMatchObject({ code: "ABORTED" });
});
