import { hostname } from "node:os";
import { Command } from "@commander-js/extra-typings";
import { parseWhole, PORTS } from "@fairlead/base/program/flags.ts";
import { serveHttp } from "@fairlead/lab/images/agnhost/serve.ts";
import { answerJsonMock } from "@fairlead/lab/images/json-mock/answer.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The server of the image json-mock. */
export function command(): Program {
  return new Command("lab-json-mock")
    .description("serve as the image json-mock of Cilium does, on the port of PORT or on 80")
    .action(async () => {
      const port = parseWhole("PORT", process.env["PORT"] ?? "80", PORTS);
      await serveHttp(port, (request, response) => {
        request.resume();
        const { status, type, text } = answerJsonMock(new URL(request.url ?? "/", "http://mock").pathname, {
          hostname: hostname(),
          address: request.socket.remoteAddress ?? "",
          authorization: request.headers.authorization,
        });
        response.writeHead(status, { "content-type": `${type}; charset=utf-8` }).end(text);
      });
      // The program is process 1 of its container, which no signal ends by default.
      for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => process.exit(0));
      process.stdout.write(`Started HTTP server on port ${port}\n`);
    });
}
