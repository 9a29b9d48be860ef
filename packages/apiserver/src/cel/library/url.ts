import type { Declaration } from "../function.ts";
import { type CelType, structOf } from "../type.ts";
import { CelError, CelMap, type CelValue, Opaque } from "../value.ts";
import { parseRequestUri, parseUrl, unescape, type UrlParts, UrlProblem, escapedPath } from "./url-parts.ts";

/** URLs as Go's net/url reads them. Source: k8s.io/apiserver, pkg/cel/library/urls.go. */

const URL_TYPE = structOf("kubernetes.URL");

class Url extends Opaque {
  readonly celType: CelType = URL_TYPE;
  readonly text: string;
  readonly parts: UrlParts;
  constructor(text: string, parts: UrlParts) {
    super();
    this.text = text;
    this.parts = parts;
  }
  isSame(other: CelValue): boolean {
    return other instanceof Url && other.text === this.text;
  }
}

function toUrl(text: string): Url {
  try {
    parseRequestUri(text);
    return new Url(text, parseUrl(text));
  } catch (error) {
    if (!(error instanceof UrlProblem)) throw error;
    throw new CelError(`URL parse error during conversion from string: ${error.message}`);
  }
}

function isUrl(text: string): boolean {
  try {
    parseRequestUri(text);
    return true;
  } catch (error) {
    if (error instanceof UrlProblem) return false;
    throw error;
  }
}

/** Host and port, where the text has one. */
function splitPort(host: string): readonly [string, string] {
  const [, name = host, port = ""] = /^(.*):(\d*)$/s.exec(host) ?? [];
  return [name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name, port];
}

function query({ parts }: Url): CelMap {
  const lists = new Map<string, string[]>();
  for (const pair of parts.query.split("&")) {
    if (pair === "" || pair.includes(";")) continue;
    const at = pair.indexOf("=");
    const key = unescape(at < 0 ? pair : pair.slice(0, at), "query");
    const value = at < 0 ? "" : unescape(pair.slice(at + 1), "query");
    if (key !== undefined && value !== undefined) lists.set(key, [...(lists.get(key) ?? []), value]);
  }
  const map = new CelMap();
  for (const [key, values] of lists) map.set(key, values);
  return map;
}

export const URLS: readonly Declaration[] = [
  ["url", ["string_to_url(string) -> kubernetes.URL", toUrl]],
  ["isURL", ["is_url_string(string) -> bool", isUrl]],
  ["getScheme", [".url_get_scheme(kubernetes.URL) -> string", ({ parts }: Url) => parts.scheme]],
  ["getHost", [".url_get_host(kubernetes.URL) -> string", ({ parts }: Url) => parts.host]],
  [
    "getHostname",
    [".url_get_hostname(kubernetes.URL) -> string", ({ parts }: Url) => splitPort(parts.host)[0]],
  ],
  ["getPort", [".url_get_port(kubernetes.URL) -> string", ({ parts }: Url) => splitPort(parts.host)[1]]],
  [
    "getEscapedPath",
    [".url_get_escaped_path(kubernetes.URL) -> string", ({ parts }: Url) => escapedPath(parts.path)],
  ],
  ["getQuery", [".url_get_query(kubernetes.URL) -> map(string, list(string))", query]],
];
