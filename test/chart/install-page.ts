/** The shell blocks of a page, with their section and whether the tests run them. */

export interface Block {
  /** Of the section that it is in. */
  readonly heading: string;
  readonly text: string;
  /** Why the tests do not run it; undefined where they do. */
  readonly notRun: string | undefined;
}

const MARK = /^\s*<!-- not run in CI: (.+) -->$/;

export function readBlocks(page: string): readonly Block[] {
  const blocks: Block[] = [];
  let heading = "";
  let open: { readonly lines: string[]; readonly notRun: string | undefined } | undefined;
  let before = "";
  for (const line of page.split("\n")) {
    const fence = line.trim();
    if (open !== undefined && fence === "```") {
      blocks.push({ heading, text: undented(open.lines), notRun: open.notRun });
      open = undefined;
    } else if (open !== undefined) open.lines.push(line);
    else if (fence === "```sh") open = { lines: [], notRun: MARK.exec(before)?.[1] };
    else heading = /^#+ (.+)$/.exec(line)?.[1] ?? heading;
    before = line;
  }
  return blocks;
}

/** In a list, blocks are indented as its text. */
function undented(lines: readonly string[]): string {
  const depth = /^ */.exec(lines[0] ?? "")?.[0].length ?? 0;
  return lines.map((it) => it.slice(depth)).join("\n");
}
