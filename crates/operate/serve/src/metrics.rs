//! Metrics that are created and registered in one step.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub type Labels<const N: usize, V = &'static str> = [(&'static str, V); N];

/// Histograms by labels.
pub type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

pub fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a new counter or gauge, or a family of them, and returns it.
pub fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    registered(registry, name, help, M::default())
}
