import { declareFunctions, type Functions } from "../function.ts";
import {
  BOOL,
  BYTES,
  type CelType,
  DOUBLE,
  DURATION,
  INT,
  listOf,
  mapOf,
  NULL,
  opaque,
  paramType,
  STRING,
  structOf,
  TIMESTAMP,
  TYPE,
  typeOfType,
  UINT,
} from "../type.ts";
import { CONVERSIONS } from "./conversions.ts";
import { LISTS } from "./lists.ts";
import { OPERATORS } from "./operators.ts";
import { OPTIONALS } from "./optionals.ts";
import { REGEX } from "./regex.ts";
import { STRINGS } from "./strings.ts";
import { TIMES } from "./times.ts";

/** Every function of Kubernetes 1.36. Source: k8s.io/apiserver, pkg/cel/environment/base.go. */
const FUNCTIONS: Functions = declareFunctions(
  OPERATORS,
  CONVERSIONS,
  TIMES,
  STRINGS,
  LISTS,
  REGEX,
  OPTIONALS,
);

export function standardFunctions(): Functions {
  return FUNCTIONS;
}

const NAMED_TYPES: readonly CelType[] = [
  BOOL,
  BYTES,
  DOUBLE,
  DURATION,
  INT,
  listOf(paramType("A")),
  mapOf(paramType("A"), paramType("B")),
  NULL,
  STRING,
  TIMESTAMP,
  TYPE,
  UINT,
];

/** Names of types stand for the types. */
const TYPES: ReadonlyMap<string, CelType> = new Map(NAMED_TYPES.map((it) => [it.name, typeOfType(it)]));

export function standardTypes(): ReadonlyMap<string, CelType> {
  return TYPES;
}

export const AUTHORIZER: CelType = structOf("kubernetes.authorization.Authorizer");
export const IP: CelType = opaque("net.IP");
