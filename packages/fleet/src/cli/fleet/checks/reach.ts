import { defined } from "@fairlead/base/defined.ts";
import { request } from "node:https";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { FleetError } from "@fairlead/base/errors.ts";

/**
 * Connects to a hub and checks its certificate, without showing who one is.
 *
 * @returns What was found, for people.
 * @throws {FleetError} `API_UNAVAILABLE` with the cause: name, route, port, certificate.
 */
export function reachHub(
  hub: { readonly server: string; readonly ca: string | undefined; readonly timeoutMs: number },
  signal: AbortSignal,
): Promise<string> {
  const { server, ca, timeoutMs } = hub;
  return new Promise((resolve, reject) => {
    const asked = request(
      `${withoutTrailing(server, "/")}/version`,
      { signal, timeout: timeoutMs, agent: false, ...defined({ ca }) },
      (answer) => {
        answer.resume();
        resolve(`${server} answers (${answer.statusCode}), and its certificate is valid`);
      },
    );
    asked.on("timeout", () => asked.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
    asked.on("error", (cause) =>
      reject(new FleetError("API_UNAVAILABLE", `${server} cannot be reached`, { cause })),
    );
    asked.end();
  });
}
