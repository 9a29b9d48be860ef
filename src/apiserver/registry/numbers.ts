/** Numbers in texts of requests, refused in the words of Go's strconv, which kube-apiserver passes on. */

export function isUint(text: string): boolean {
  return /^[0-9]{1,15}$/.test(text);
}

export function notAUint(text: string): string {
  return `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`;
}

export function isInt(text: string): boolean {
  return /^[-+]?[0-9]{1,15}$/.test(text);
}

export function notAnInt(text: string): string {
  return `strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`;
}
