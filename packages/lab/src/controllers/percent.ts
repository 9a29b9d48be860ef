/** An `intstr.IntOrString`: a number, or a percentage of `of`. What cannot be read is 0. */
export function countOf(
  value: number | string | undefined,
  of: number,
  round: (value: number) => number,
): number {
  if (typeof value === "number") return value;
  const percent = /^(\d+)%$/v.exec(value ?? "")?.[1];
  return percent === undefined ? 0 : round((Number(percent) * of) / 100);
}
