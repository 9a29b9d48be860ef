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
  paramType,
  STRING,
  TIMESTAMP,
  TYPE,
  typeOfType,
  UINT,
} from "../type.ts";
import { AUTHORIZATION } from "./authorizer.ts";
import { CONVERSIONS } from "./conversions.ts";
import { LISTS } from "./lists.ts";
import { NAMED_FORMATS } from "./named-formats.ts";
import { NET } from "./net.ts";
import { OPERATORS } from "./operators.ts";
import { OPTIONALS } from "./optionals.ts";
import { QUANTITIES } from "./quantity.ts";
import { REGEX } from "./regex.ts";
import { SEMVERS } from "./semver.ts";
import { STRINGS } from "./strings.ts";
import { TIMES } from "./times.ts";
import { URLS } from "./url.ts";

/** Every function of Kubernetes 1.36. Source: k8s.io/apiserver, pkg/cel/environment/base.go. */
const FUNCTIONS: Functions = declareFunctions(
  OPERATORS,
  CONVERSIONS,
  TIMES,
  STRINGS,
  LISTS,
  REGEX,
  OPTIONALS,
  NET,
  URLS,
  QUANTITIES,
  NAMED_FORMATS,
  SEMVERS,
  AUTHORIZATION,
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
