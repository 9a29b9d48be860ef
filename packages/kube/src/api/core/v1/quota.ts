import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

export interface ResourceQuota extends KubeObject {
  spec?: { hard?: Record<string, string> };
  /** By the quota controller; a server enforces what is here. */
  status?: { hard?: Record<string, string>; used?: Record<string, string> };
}

export const RESOURCE_QUOTAS = resource<ResourceQuota>("v1", "ResourceQuota", "resourcequotas");
