//! Simulations of a part of the input.

use berth_control::expand::ExpandError;
use berth_input::inventory::Inventory;
use berth_simulate::{Simulation, SimulationOptions};

use crate::input::LintInput;

impl LintInput<'_> {
    /// The state of objects of the input, as if those that the API server rejects were not there; none if their `n_pods` are too many.
    pub(crate) fn simulated(&self, mut inventory: Inventory, n_pods: usize) -> Option<Simulation> {
        while self.work.spend(n_pods) {
            let options =
                SimulationOptions { settings: self.settings.clone(), ..SimulationOptions::default() };
            match Simulation::of_valid(inventory.clone(), options) {
                Ok((simulation, _)) => return Some(simulation),
                Err(ExpandError::Field { place, .. }) => {
                    inventory.workloads.retain(|entry| entry.source != place);
                }
                Err(ExpandError::TooManyPods { .. }) => _ = self.work.spend(usize::MAX),
            }
        }
        None
    }
}
