/**
 * Numbers in texts of requests, refused in the words of Go's strconv, which kube-apiserver passes on. Those that 64 bits
 * hold are taken, though a number here is exact up to 2^53 only: all that is beyond is more than anything real.
 */

export function isUint(text: string): boolean {
  return /^[0-9]{1,19}$/.test(text);
}

export function notAUint(text: string): string {
  return `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`;
}

export function isInt(text: string): boolean {
  return /^[-+]?[0-9]{1,18}$/.test(text);
}

export function notAnInt(text: string): string {
  return `strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`;
}
