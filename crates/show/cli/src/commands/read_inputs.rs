//! Inputs as objects of an inventory.

use berth_api::inventory::Inventory;
use berth_api::read::{Manifest, read_manifests};
use berth_terminal::input::Input;
use berth_terminal::progress;

use crate::error::CliError;

/// Reads inputs into the inventory and shows progress; `each` gets the objects, which takes longer.
pub fn read(
    inventory: &mut Inventory,
    inputs: &[Input],
    mut each: Option<&mut dyn FnMut(&Manifest)>,
) -> Result<(), CliError> {
    let progress = progress::of_bytes(inputs);
    for input in inputs {
        let text = input.open(|n_bytes| progress.inc(n_bytes))?;
        match &mut each {
            None => inventory.read(text, &input.name())?,
            Some(each) => {
                inventory.next_input();
                read_manifests(text, &input.name(), &mut |manifest| {
                    each(&manifest);
                    inventory.add(manifest)
                })?;
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}
