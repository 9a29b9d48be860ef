/** One line for `ip -batch`, made of checked words. Only the files of this folder make it. */
export type IpLine = string & { readonly __brand: "IpLine" };

/** Parts that are empty are left out. */
export function line(...parts: readonly string[]): IpLine {
  return words(...parts) as IpLine;
}

export function words(...parts: readonly string[]): string {
  return parts.filter((it) => it !== "").join(" ");
}

/** `word value`, or nothing where there is no value. */
export function setting<T>(word: string, value: T | undefined, text: (value: T) => string): string {
  return value === undefined ? "" : `${word} ${text(value)}`;
}
