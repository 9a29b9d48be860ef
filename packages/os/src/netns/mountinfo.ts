/**
 * Mount points of network namespaces in the text of `/proc/PID/mountinfo`, in the order of mounting.
 *
 * A line reads: id, parent, device, root, mount point, options, optional fields, "-", type, source, options
 * (proc_pid_mountinfo(5)). The root of a namespace's mount is `net:[INODE]`.
 */
export function parseNsMounts(mountinfo: string): readonly string[] {
  const paths: string[] = [];
  for (const line of mountinfo.split("\n")) {
    const fields = line.split(" ");
    const root = fields[3];
    const point = fields[4];
    const type = fields[fields.indexOf("-", 6) + 1];
    if (point === undefined || type !== "nsfs" || root?.startsWith("net:[") !== true) continue;
    paths.push(unescapePath(point));
  }
  return paths;
}

/** Space, tab, newline and backslash are written as a backslash and three octal digits. */
function unescapePath(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  );
}
