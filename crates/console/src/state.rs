//! What the pages show.

use berth_api::read::{Entry, Inventory, SourceLocation};
use berth_engine::Violation;
use berth_simulate::{Simulation, SimulationError, SimulationOptions};

/// The cluster that the pages show.
pub struct State {
    /// Its name in headings, such as a file or a server.
    pub name: String,
    /// Its objects without pods; those of `simulation` are the current ones.
    inventory: Inventory,
    options: SimulationOptions,
    simulation: Simulation,
    /// The broken rules of running pods; none until they are asked for after a change.
    broken: Option<Vec<Violation>>,
}

impl State {
    /// The cluster of an inventory, as [`Simulation::as_is`] shows it.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn new(
        name: impl Into<String>,
        inventory: Inventory,
        options: SimulationOptions,
    ) -> Result<State, SimulationError> {
        let simulation = Simulation::as_is(inventory.clone(), options.clone())?;
        let mut inventory = inventory;
        inventory.pods = Vec::new();
        Ok(State { name: name.into(), inventory, options, simulation, broken: None })
    }

    /// Builds the simulation again from the objects.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn rebuild(&mut self) -> Result<(), SimulationError> {
        let (inventory, options) = self.objects();
        self.simulation = Simulation::as_is(inventory, options)?;
        self.broken = None;
        Ok(())
    }

    /// The objects and the options, for a simulation of another state.
    pub fn objects(&self) -> (Inventory, SimulationOptions) {
        let mut inventory = self.inventory.clone();
        let source = SourceLocation::file(&self.name);
        let pods = self.simulation.pods().iter().filter(|pod| pod.was_running || pod.node().is_none());
        let entry = |(order, object)| Entry { object, raw: None, source: source.clone(), order };
        inventory.pods = pods.map(|pod| pod.pod.clone()).enumerate().map(entry).collect();
        (inventory, self.options.clone())
    }

    /// The nodes and pods.
    pub fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }

    /// The nodes and pods, and the broken rules of running pods.
    pub fn audited(&mut self) -> (&Simulation, &[Violation]) {
        let simulation = &mut self.simulation;
        let broken = self.broken.get_or_insert_with(|| simulation.cluster().audit());
        (&self.simulation, broken)
    }
}
