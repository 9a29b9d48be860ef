/** The parts of a URL as Go's net/url parses them, and the parse error in its words. */
export interface UrlParts {
  readonly scheme: string;
  readonly host: string;
  /** As written. */
  readonly path: string;
  /** As written. */
  readonly query: string;
}

export class UrlProblem extends Error {
  constructor(text: string, why: string) {
    super(`parse ${JSON.stringify(text)}: ${why}`);
  }
}

/** @throws {UrlProblem} */
export function parseRequestUri(text: string): UrlParts {
  return parse(text, text, true);
}

/** @throws {UrlProblem} */
export function parseUrl(text: string): UrlParts {
  const hash = text.indexOf("#");
  if (hash < 0) return parse(text, text, false);
  const fragment = text.slice(hash + 1);
  if (unescape(fragment, "path") === undefined) throw new UrlProblem(text, escapeProblem(fragment));
  return parse(text, text.slice(0, hash), false);
}

function parse(whole: string, text: string, isRequest: boolean): UrlParts {
  // oxlint-disable-next-line no-control-regex -- these are what is refused
  if (/[\u0000-\u001F\u007F]/.test(text))
    throw new UrlProblem(whole, "net/url: invalid control character in URL");
  if (text === "" && isRequest) throw new UrlProblem(whole, "empty url");
  if (text === "*") return { scheme: "", host: "", path: "*", query: "" };
  const { scheme, rest } = splitScheme(whole, text);
  const mark = rest.indexOf("?");
  const before = mark < 0 ? rest : rest.slice(0, mark);
  const query = mark < 0 ? "" : rest.slice(mark + 1);
  if (before.startsWith("/"))
    return { scheme, query, ...parseHierarchy(whole, before, scheme !== "" || !isRequest) };
  if (scheme === "") refuseRelative(whole, before, isRequest);
  return { scheme, host: "", path: scheme === "" ? before : "", query };
}

/** @param mayHaveHost - Whether two slashes begin a host; three do only behind a scheme. */
function parseHierarchy(
  whole: string,
  text: string,
  mayHaveHost: boolean,
): { readonly host: string; readonly path: string } {
  const hasHost = mayHaveHost && text.startsWith("//");
  const end = hasHost ? text.indexOf("/", 2) : 0;
  const path = end < 0 ? "" : text.slice(end);
  const host = hasHost ? hostOf(whole, text.slice(2, end < 0 ? undefined : end)) : "";
  if (unescape(path, "path") === undefined) throw new UrlProblem(whole, escapeProblem(path));
  return { host, path };
}

function splitScheme(whole: string, text: string): { readonly scheme: string; readonly rest: string } {
  if (text.startsWith(":")) throw new UrlProblem(whole, "missing protocol scheme");
  const [found = ""] = /^[a-zA-Z][a-zA-Z0-9+.-]*:/.exec(text) ?? [];
  return { scheme: found.slice(0, -1).toLowerCase(), rest: text.slice(found.length) };
}

function refuseRelative(whole: string, rest: string, isRequest: boolean): void {
  if (isRequest) throw new UrlProblem(whole, "invalid URI for request");
  const [segment = ""] = rest.split("/", 1);
  if (segment.includes(":")) throw new UrlProblem(whole, "first path segment in URL cannot contain colon");
}

function hostOf(whole: string, authority: string): string {
  const at = authority.lastIndexOf("@");
  if (at >= 0 && !/^[A-Za-z0-9\-._:~!$&'()*+,;=%@]*$/.test(authority.slice(0, at))) {
    throw new UrlProblem(whole, "net/url: invalid userinfo");
  }
  const host = authority.slice(at + 1);
  const port = portOf(whole, host);
  if (!/^(:\d*)?$/.test(port)) throw new UrlProblem(whole, `invalid port ${JSON.stringify(port)} after host`);
  const [wrong] = /[^A-Za-z0-9\-_.~!$&'()*+,;=:[\]<>"%\u0080-\u{10FFFF}]/u.exec(host) ?? [];
  if (wrong !== undefined)
    throw new UrlProblem(whole, `invalid character ${JSON.stringify(wrong)} in host name`);
  const name = unescape(host, "path");
  if (name === undefined) throw new UrlProblem(whole, escapeProblem(host));
  return name;
}

function portOf(whole: string, host: string): string {
  if (host.startsWith("[")) {
    const end = host.lastIndexOf("]");
    if (end < 0) throw new UrlProblem(whole, "missing ']' in host");
    return host.slice(end + 1);
  }
  const colon = host.lastIndexOf(":");
  return colon < 0 ? "" : host.slice(colon);
}

function escapeProblem(text: string): string {
  const [wrong = ""] = /%(?![0-9a-fA-F]{2}).{0,2}/su.exec(text) ?? [];
  return `invalid URL escape ${JSON.stringify(wrong)}`;
}

/** Undefined if an escape sequence is invalid. */
export function unescape(text: string, part: "path" | "query"): string | undefined {
  if (/%(?![0-9a-fA-F]{2})/.test(text)) return undefined;
  const spaced = part === "query" ? text.replaceAll("+", " ") : text;
  if (!spaced.includes("%")) return spaced;
  const bytes = spaced
    .split(/(%[0-9a-fA-F]{2})/)
    .map((it, at) => (at % 2 === 0 ? Buffer.from(it) : Buffer.from(it.slice(1), "hex")));
  return Buffer.concat(bytes).toString("utf8");
}

/** The path with what has to be escaped escaped: as written, where it already is. */
export function escapedPath(path: string): string {
  if (/^[A-Za-z0-9\-._~!$&'()*+,;=:@/[\]%]*$/.test(path)) return path;
  const plain = unescape(path, "path") ?? path;
  return plain.replaceAll(/[^A-Za-z0-9\-_.~$&+,/:;=@]+/gu, (it) =>
    [...Buffer.from(it)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );
}
