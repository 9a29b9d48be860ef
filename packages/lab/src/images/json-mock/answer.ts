/** The answers of the image json-mock, which demonstrations of Cilium start. Pure. */

export interface JsonMockFacts {
  readonly hostname: string;
  /** Of the client. */
  readonly address: string;
  readonly authorization: string | undefined;
}

interface Answer {
  readonly status: number;
  readonly type: "application/json" | "text/html" | "text/plain";
  readonly text: string;
}

/** The collections of the image's own file. */
const COLLECTIONS: Readonly<Record<string, readonly { readonly id: number; readonly body: string }[]>> = {
  private: [{ id: 1, body: "secret information" }],
  public: [{ id: 1, body: "public information" }],
};

const TOKEN = "Bearer 123456";

export function answerJsonMock(path: string, { hostname, address, authorization }: JsonMockFacts): Answer {
  if (path.startsWith("/client-ip")) return json(200, { "client-ip": address });
  if (path.startsWith("/hostname")) return json(200, { hostname });
  if (path.startsWith("/auth-header-required") && authorization !== TOKEN) {
    const text = `Invalid Authorization header, try setting it to "${TOKEN}"`;
    return { status: 401, type: "text/plain", text };
  }
  if (path === "/") {
    const links = Object.keys(COLLECTIONS).map((it) => `<li><a href="/${it}">/${it}</a></li>`);
    return { status: 200, type: "text/html", text: `<!doctype html>\n<ul>${links.join("")}</ul>\n` };
  }
  const [name = "", id, ...rest] = path.slice(1).split("/");
  const all = Object.hasOwn(COLLECTIONS, name) ? COLLECTIONS[name] : undefined;
  const found = id === undefined ? all : all?.find((it) => String(it.id) === id);
  return found === undefined || rest.length > 0 ? json(404, {}) : json(200, found);
}

function json(status: number, body: unknown): Answer {
  return { status, type: "application/json", text: JSON.stringify(body, undefined, 2) };
}
