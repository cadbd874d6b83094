//! Inputs as objects of an inventory.

use berth_api::inventory::{InputError, Inventory};
use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_terminal::input::{Input, find_inputs};
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

/// Reads the objects of files, directories or standard input, and shows progress.
pub fn read_each(arguments: &[String], mut each: impl FnMut(Manifest)) -> Result<(), CliError> {
    let inputs = find_inputs(arguments)?;
    let progress = progress::of_bytes(&inputs);
    for input in &inputs {
        let reader = input.open(|n_bytes| progress.inc(n_bytes))?;
        let take = &mut |manifest| {
            each(manifest);
            Ok::<(), ReadError>(())
        };
        read_manifests(reader, &input.name(), take).map_err(InputError::from)?;
    }
    progress.finish_and_clear();
    Ok(())
}
