/** Numbered changes: an endpoint's address contains the number, so an observer knows which change it sees. */

/** 16 bits of number in 172.20.0.0/14, of which the last octet is never 0 or 255. */
export function addressOf(change: number): string {
  const high = Math.floor(change / 250);
  return `172.${20 + (high >> 8)}.${high & 255}.${(change % 250) + 1}`;
}

/** -1 for any other address. */
export function changeOf(address: string): number {
  const [first, second = 0, third = 0, fourth = 0] = address.split(".").map(Number);
  if (first !== 172 || second < 20 || second > 23) return -1;
  return ((second - 20) * 256 + third) * 250 + fourth - 1;
}

/** Comparable between processes of one machine, unlike `performance.now()`. Unit: milliseconds. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
