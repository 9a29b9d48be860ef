/** Bounds of what is tried: the least that IPv4 hosts take (RFC 791), and jumbo frames. Unit: bytes. */
export const MTU_RANGE = { least: 576, most: 9216 } as const;

/**
 * The largest packet that passes, by halves; undefined if not even the least does. A size passes if all smaller ones do.
 */
export async function largestPassing(
  { least, most }: { readonly least: number; readonly most: number },
  passes: (size: number) => Promise<boolean>,
): Promise<number | undefined> {
  if (!(await passes(least))) return undefined;
  let [good, bad] = [least, most + 1];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (await passes(middle)) good = middle;
    else bad = middle;
  }
  return good;
}
