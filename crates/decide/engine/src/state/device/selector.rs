//! Selectors of devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::rules::{DeviceSelector, SelectedDevice};

/// The result of a selector: whether it selects the device, or kube-scheduler's words for why it cannot be evaluated.
pub(crate) type Selected = Result<bool, Arc<str>>;

/// A selector of devices. Equal texts are compiled once.
#[derive(Debug)]
pub(crate) struct Selector {
    /// Differs between all selectors of the process.
    pub(crate) number: u64,
    pub(crate) expression: Box<str>,
    /// The error says why the text is no selector.
    compiled: Result<DeviceSelector, Arc<str>>,
}

impl Selector {
    pub(super) fn compile(expression: &str) -> Selector {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let compiled = DeviceSelector::compile(expression);
        let compiled = compiled.map_err(|error| format!("CEL compile error: {error}").into());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Selector { number, expression: expression.into(), compiled }
    }

    pub(super) fn matches(&self, device: &SelectedDevice<'_>) -> Selected {
        let selector = self.compiled.as_ref().map_err(Arc::clone)?;
        selector.matches(device).map_err(|error| format!("CEL runtime error: {error}").into())
    }
}
