import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** Files below the document root of the image nginx, for machines without nginx. */

interface Found {
  readonly status: 200 | 404;
  readonly type: string;
  readonly body: Buffer | string;
}

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html",
  htm: "text/html",
  css: "text/css",
  js: "application/javascript",
  json: "application/json",
  txt: "text/plain",
  svg: "image/svg+xml",
  png: "image/png",
};

/** What the image has as its index. */
export const WELCOME = `<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>This lab serves the image's document root by a program of its own: the machine has no nginx.</p>
</body>
</html>
`;

/** @param path - Of a URL, normalized, so that it has no "..". */
export async function findFile(root: string, path: string): Promise<Found> {
  const name = decode(path);
  if (name === undefined) return notFound();
  const file = name.endsWith("/") ? `${name}index.html` : name;
  try {
    const body = await readFile(join(root, file));
    return {
      status: 200,
      type: TYPES[file.slice(file.lastIndexOf(".") + 1)] ?? "application/octet-stream",
      body,
    };
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return file === "/index.html" ? { status: 200, type: "text/html", body: WELCOME } : notFound();
  }
}

const ABSENT: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "ENAMETOOLONG"]);

function isAbsent(error: unknown): boolean {
  return Error.isError(error) && "code" in error && ABSENT.has(error.code);
}

/** Undefined where it is not the name of a file. */
function decode(path: string): string | undefined {
  try {
    const name = decodeURIComponent(path);
    return name.includes("\0") || name.split("/").includes("..") ? undefined : name;
  } catch {
    return undefined;
  }
}

function notFound(): Found {
  return { status: 404, type: "text/html", body: "<html><body><h1>404 Not Found</h1></body></html>\n" };
}
