import { Command } from "@commander-js/extra-typings";
import { serveHttp } from "@fairlead/lab/images/agnhost/serve.ts";
import { findFile } from "@fairlead/lab/images/nginx/files.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const PORT = 80;
const ROOT = "/usr/share/nginx/html";

/** The server of the image nginx on machines without nginx: files of the document root, on port 80. */
export function command(): Program {
  return new Command("lab-nginx")
    .description("serve the document root of the image nginx; configuration of nginx has no effect")
    .action(async () => {
      await serveHttp(PORT, (request, response) => {
        request.resume();
        findFile(ROOT, new URL(request.url ?? "/", "http://nginx").pathname).then(
          ({ status, type, body }) => response.writeHead(status, { "content-type": type }).end(body),
          () => response.writeHead(500).end(),
        );
      });
      // As nginx, which ends gracefully on SIGQUIT, and is process 1 of its container.
      for (const signal of ["SIGTERM", "SIGINT", "SIGQUIT"]) process.once(signal, () => process.exit(0));
      process.stdout.write(
        `serving ${ROOT} on port ${PORT}; for nginx itself, with its configuration, install the Debian package nginx-light\n`,
      );
    });
}
