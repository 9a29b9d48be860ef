import { Counter, Gauge, Histogram, Registry } from "@prometheus-io/client";

/** Metrics of one program: its own registry, so that several programs may run in one process. */

export type Labels = Readonly<Record<string, string>>;

export interface CounterMetric {
  add(labels: Labels, by?: number): void;
}
export interface GaugeMetric {
  set(labels: Labels, value: number): void;
  /** Removes the series of an object that no longer exists. */
  remove(labels: Labels): void;
}
export interface HistogramMetric {
  observe(labels: Labels, value: number): void;
  /** Removes the series of an object that no longer exists. */
  remove(labels: Labels): void;
}

export interface MetricOptions {
  /** Ends in `_total` for counters and in the unit otherwise, as Prometheus' naming rules have it. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
}

export interface HistogramOptions extends MetricOptions {
  /** Upper bounds, rising. */
  readonly buckets: readonly number[];
}

/** Asking twice for one name gives the same metric. */
export interface Metrics {
  counter(options: MetricOptions): CounterMetric;
  gauge(options: MetricOptions): GaugeMetric;
  histogram(options: HistogramOptions): HistogramMetric;
  /** Called before each `render`, for values that are cheaper to read than to keep. */
  onRender(update: () => void): Disposable;
}

export interface MetricsRegistry extends Metrics {
  /** The text exposition format. */
  render(): Promise<string>;
  readonly contentType: string;
}

/**
 * Series of one counter or histogram. Names of clusters and gateways, and what servers answer, are chosen elsewhere, and those of
 * objects that are gone stay: what comes later is counted in one more series. Owners of gauges remove theirs.
 */
const MAX_SERIES = 10_000;
/** The value of every label of that one. */
const OTHER = "other";

/** The series of one metric. */
class SeriesLimit {
  readonly #names: readonly string[];
  readonly #other: Labels;
  readonly #known = new Set<string>();

  constructor(names: readonly string[]) {
    this.#names = names;
    this.#other = Object.fromEntries(names.map((it) => [it, OTHER]));
  }

  /** The labels to count in. */
  admit(labels: Labels): Labels {
    const key = this.#keyOf(labels);
    if (this.#known.has(key)) return labels;
    if (this.#known.size >= MAX_SERIES) return this.#other;
    this.#known.add(key);
    return labels;
  }

  remove(labels: Labels): void {
    this.#known.delete(this.#keyOf(labels));
  }

  #keyOf(labels: Labels): string {
    return this.#names.map((it) => labels[it]).join("\u0000");
  }
}

export function createMetrics(): MetricsRegistry {
  const registry = new Registry();
  const known = new Map<string, unknown>();
  const updates = new Set<() => void>();
  function once<M>(name: string, make: () => M): M {
    const before = known.get(name);
    if (before !== undefined) return before as M;
    const made = make();
    known.set(name, made);
    return made;
  }
  const base = (options: MetricOptions) => ({
    name: options.name,
    help: options.help,
    labelNames: [...(options.labels ?? [])],
    registers: [registry],
  });
  return {
    counter: (options) =>
      once(options.name, () => {
        const counter = new Counter(base(options));
        const limit = new SeriesLimit(options.labels ?? []);
        return { add: (labels, by = 1) => counter.inc({ ...limit.admit(labels) }, by) };
      }),
    gauge: (options) =>
      once(options.name, () => {
        const gauge = new Gauge(base(options));
        return {
          set: (labels, value) => gauge.set({ ...labels }, value),
          remove: (labels) => gauge.remove({ ...labels }),
        };
      }),
    histogram: (options) =>
      once(options.name, () => {
        const histogram = new Histogram({ ...base(options), buckets: [...options.buckets] });
        const limit = new SeriesLimit(options.labels ?? []);
        return {
          observe: (labels, value) => histogram.observe({ ...limit.admit(labels) }, value),
          remove(labels) {
            limit.remove(labels);
            histogram.remove({ ...labels });
          },
        };
      }),
    onRender(update) {
      updates.add(update);
      return { [Symbol.dispose]: () => void updates.delete(update) };
    },
    render() {
      for (const update of updates) update();
      return registry.metrics();
    },
    contentType: registry.contentType,
  };
}
