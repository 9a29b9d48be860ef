import { readFileSync } from "node:fs";
import { createRequire, stripTypeScriptTypes } from "node:module";
import { dirname, join, relative } from "node:path";

/** Finds the regular expressions of source files, those put together out of constants too. */

export interface Found {
  readonly file: string;
  readonly flags: string;
  /** Undefined where the text is known at run time only. */
  readonly pattern: string | undefined;
}

/** A node of the syntax tree (ESTree). */
interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

const acorn = createRequire(import.meta.url)("acorn") as {
  parse(text: string, options: object): Node;
};

/** Functions that make an expression of a text, and what they put around it. */
const MAKERS: ReadonlyMap<string, (text: string) => string> = new Map([
  ["RegExp", (text) => text],
  ["wholly", (text) => `^${text}$`],
]);

interface Module {
  readonly path: string;
  readonly tree: Node;
  /** What constants of the module are made of. */
  readonly constants: ReadonlyMap<string, Node>;
  /** Of imported names, the module and the name there. */
  readonly imports: ReadonlyMap<string, { readonly from: string; readonly name: string }>;
}

export class ExpressionFinder {
  readonly #packages: string;
  readonly #modules = new Map<string, Module>();

  constructor(packages: string) {
    this.#packages = packages;
  }

  in(path: string): readonly Found[] {
    const module = this.#module(path);
    const file = relative(this.#packages, path);
    const found: Found[] = [];
    for (const node of nodesOf(module.tree)) {
      const literal = node["regex"] as { pattern: string; flags: string } | undefined;
      if (node.type === "Literal" && literal !== undefined) found.push({ file, ...literal });
      const made = this.#made(node, module);
      if (made !== undefined) found.push({ file, ...made });
    }
    return found;
  }

  #module(path: string): Module {
    const known = this.#modules.get(path);
    if (known !== undefined) return known;
    const module = readModule(path);
    this.#modules.set(path, module);
    return module;
  }

  #made(node: Node, module: Module): Omit<Found, "file"> | undefined {
    if (node.type !== "NewExpression" && node.type !== "CallExpression") return undefined;
    const wrap = MAKERS.get(String((node["callee"] as Node)["name"]));
    if (wrap === undefined) return undefined;
    const [text, flags] = node["arguments"] as readonly Node[];
    // A copy of another expression, and a parameter of a maker itself.
    if (text?.type === "Identifier" && this.#isExpressionOrParameter(text, module)) return undefined;
    const pattern = this.#textOf(text, module);
    return {
      pattern: pattern === undefined ? undefined : wrap(pattern),
      flags: flags === undefined ? "" : (this.#textOf(flags, module) ?? ""),
    };
  }

  #isExpressionOrParameter({ name }: Node, module: Module): boolean {
    const init = module.constants.get(String(name));
    return init?.["regex"] !== undefined || (init === undefined && !module.imports.has(String(name)));
  }

  #textOf(node: Node | undefined, module: Module): string | undefined {
    switch (node?.type) {
      case "Literal":
        return typeof node["value"] === "string" ? node["value"] : undefined;
      case "TemplateLiteral":
        return this.#templateText(node, "cooked", module);
      case "TaggedTemplateExpression":
        return this.#templateText(node["quasi"] as Node, "raw", module);
      case "BinaryExpression":
        return this.#joined([node["left"], node["right"]] as Node[], "", module);
      case "Identifier":
        return this.#constantText(String(node["name"]), module);
      case "CallExpression":
        return this.#methodText(node, module);
      default:
        return undefined;
    }
  }

  #templateText(node: Node, form: "raw" | "cooked", module: Module): string | undefined {
    const quasis = (node["quasis"] as readonly { value: Record<"raw" | "cooked", string> }[]).map(
      (it) => it.value[form],
    );
    const inserted = (node["expressions"] as readonly Node[]).map((it) => this.#textOf(it, module));
    if (inserted.includes(undefined)) return undefined;
    return quasis.map((it, at) => `${it}${inserted[at] ?? ""}`).join("");
  }

  #joined(nodes: readonly Node[], by: string, module: Module): string | undefined {
    const texts = nodes.map((it) => this.#textOf(it, module));
    return texts.includes(undefined) ? undefined : texts.join(by);
  }

  #constantText(name: string, module: Module): string | undefined {
    const init = module.constants.get(name);
    if (init !== undefined) return this.#textOf(init, module);
    const imported = module.imports.get(name);
    if (imported === undefined) return undefined;
    const { from } = imported;
    const path = this.#pathOf(from, module.path);
    return path.endsWith(".ts") ? this.#constantText(imported.name, this.#module(path)) : undefined;
  }

  /** The file of a module that is named in `importer`. */
  #pathOf(from: string, importer: string): string {
    const [, name = "", rest = ""] = /^@fairlead\/([a-z]+)\/(.+)$/.exec(from) ?? [];
    if (name !== "") return join(this.#packages, name, "src", rest);
    if (!from.startsWith("#")) return join(dirname(importer), from);
    const [own = ""] = relative(this.#packages, importer).split("/");
    return join(this.#packages, own, "src", from.slice(1));
  }

  /** `[...].join("|")` and `TEXT.replaceAll("A", "B")`. */
  #methodText(node: Node, module: Module): string | undefined {
    const callee = node["callee"] as Node;
    const method = String((callee["property"] as Node | undefined)?.["name"]);
    const given = (node["arguments"] as readonly Node[]).map((it) => this.#textOf(it, module));
    const [first = "", second = ""] = given;
    const object = callee["object"] as Node | undefined;
    if (method === "join" && object?.type === "ArrayExpression")
      return this.#joined(object["elements"] as readonly Node[], first, module);
    if (method !== "replaceAll" || given.includes(undefined)) return undefined;
    return this.#textOf(object, module)?.replaceAll(first, () => second);
  }
}

function readModule(path: string): Module {
  const text = stripTypeScriptTypes(readFileSync(path, "utf8"));
  const tree = acorn.parse(text, { ecmaVersion: "latest", sourceType: "module", allowHashBang: true });
  const constants = new Map<string, Node>();
  const imports = new Map<string, { from: string; name: string }>();
  for (const node of nodesOf(tree)) {
    if (node.type === "VariableDeclarator" && node["init"] !== null)
      constants.set(String((node["id"] as Node)["name"]), node["init"] as Node);
    if (node.type !== "ImportDeclaration") continue;
    const from = String((node["source"] as Node)["value"]);
    for (const it of node["specifiers"] as readonly Record<"imported" | "local", Node | undefined>[]) {
      const local = String(it.local?.["name"]);
      imports.set(local, { from, name: it.imported === undefined ? local : String(it.imported["name"]) });
    }
  }
  return { path, tree, constants, imports };
}

function* nodesOf(node: Node): Generator<Node> {
  yield node;
  for (const child of Object.values(node).flat())
    if (typeof child === "object" && child !== null && "type" in child) yield* nodesOf(child as Node);
}
