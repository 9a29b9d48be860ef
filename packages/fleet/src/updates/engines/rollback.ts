/** Engines that cannot lead a cluster back to an older version, with the reason. */
export const NO_WAY_BACK = {
  SystemUpgradeController: "the system-upgrade-controller does not go back to older versions",
  ClusterAPI: "Cluster API does not go back to older versions",
} as const;

/** Why an engine cannot lead a cluster back, as far as its name tells; undefined: it may. */
export function rollbackProblem(engine: string): string | undefined {
  const [kind = ""] = engine.split(":", 1);
  if (kind === "") return "no engine is configured";
  return kind === "SystemUpgradeController" || kind === "ClusterAPI" ? NO_WAY_BACK[kind] : undefined;
}
