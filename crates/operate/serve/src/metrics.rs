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

/// Defines a struct of metrics, and `registered`, which makes and registers them: for each metric its help as a comment, its field and
/// its name; `with` makes those that do not begin empty.
#[macro_export]
macro_rules! metrics {
    ($vis:vis struct $struct:ident {
        $(#[doc = $help:literal] $field_vis:vis $field:ident: $type:ty = $name:literal $(with $new:expr)?;)*
    }) => {
        $vis struct $struct {
            $($field_vis $field: $type,)*
        }

        impl $struct {
            fn registered(registry: &mut ::prometheus_client::registry::Registry) -> $struct {
                $struct { $($field: $crate::metrics!(@registered registry, $name, $help $(, $new)?),)* }
            }
        }
    };
    (@registered $registry:ident, $name:literal, $help:literal) => {
        $crate::metrics::register($registry, $name, $help.trim_start())
    };
    (@registered $registry:ident, $name:literal, $help:literal, $new:expr) => {
        $crate::metrics::registered($registry, $name, $help.trim_start(), $new)
    };
}
