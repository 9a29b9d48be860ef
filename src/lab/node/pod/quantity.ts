/** Quantities of resources. Pure. Source: k8s.io/apimachinery/pkg/api/resource. */

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** The number that a quantity stands for, as exact as a double is; undefined when it is none. */
export function parseQuantity(text: string): number | undefined {
  const [, number, suffix = ""] =
    /^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(text) ?? [];
  const factor = Object.hasOwn(SUFFIXES, suffix) ? SUFFIXES[suffix] : undefined;
  return number === undefined || factor === undefined ? undefined : Number(number) * factor;
}
