/** The services that each server of `bench dns` has. */
export const SERVICES = 10_000;
/** Of each service. */
export const ENDPOINTS = 4;

export function nameOf(service: number): string {
  return `service-${service % SERVICES}.work.svc.clusterset.local.`;
}

export function addressOf(service: number, endpoint: number): string {
  return `10.${service >> 8}.${service & 255}.${endpoint + 1}`;
}

/** Numbers of services in an order that has no pattern for a cache. */
export function shuffled(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => (index * 7919) % SERVICES);
}
