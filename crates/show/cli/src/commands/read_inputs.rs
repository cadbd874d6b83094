//! Inputs as objects of an inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use berth_api::inventory::{InputError, Inventory};
use berth_api::read::{FieldLines, Manifest, ReadError, read_manifests};
use berth_api::syntax::format::abbreviated;
use berth_terminal::input::{Input, find_inputs};
use berth_terminal::output;
use berth_terminal::progress;

use crate::error::CliError;

/// Number of files named in a warning.
const MAX_NAMED: usize = 5;
/// Lines of fields are not searched in larger inputs.
const MAX_SEARCHED_BYTES: u64 = 16 << 20;

/// The lines of the fields in these files, where a file is not too large and can be read again.
pub fn field_lines(files: &[Input], wanted: &BTreeSet<String>) -> BTreeMap<String, FieldLines> {
    let mut lines = BTreeMap::new();
    for file in files.iter().filter(|file| wanted.contains(&file.name()) && file.n_bytes() > 0) {
        let mut text = String::new();
        let read = file.open(|_| ()).map(|reader| reader.take(MAX_SEARCHED_BYTES).read_to_string(&mut text));
        if matches!(read, Ok(Ok(n)) if (n as u64) < MAX_SEARCHED_BYTES) {
            lines.insert(file.name(), FieldLines::of(&text));
        }
    }
    lines
}

/// Reads inputs into the inventory and shows progress; `each` gets the objects, which takes longer.
pub fn read(
    inventory: &mut Inventory,
    inputs: &[Input],
    mut each: Option<&mut dyn FnMut(&Manifest)>,
) -> Result<(), CliError> {
    let progress = progress::of_bytes(inputs);
    let mut empty = Vec::new();
    for input in inputs {
        let text = input.open(|n_bytes| progress.inc(n_bytes))?;
        let n_before = inventory.n_objects();
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
        if inventory.n_objects() == n_before {
            empty.push(input.name());
        }
    }
    progress.finish_and_clear();
    warn_about_empty(&empty);
    Ok(())
}

fn warn_about_empty(names: &[String]) {
    if !names.is_empty() {
        output::warning(&format!("{}: no objects", abbreviated(names, MAX_NAMED)));
    }
}

/// Reads the objects of files, directories or standard input, and shows progress.
pub fn read_each(arguments: &[String], mut each: impl FnMut(Manifest)) -> Result<(), CliError> {
    let inputs = find_inputs(arguments)?;
    let progress = progress::of_bytes(&inputs);
    let mut empty = Vec::new();
    for input in &inputs {
        let mut n_objects = 0;
        let reader = input.open(|n_bytes| progress.inc(n_bytes))?;
        let take = &mut |manifest| {
            n_objects += 1;
            each(manifest);
            Ok::<(), ReadError>(())
        };
        read_manifests(reader, &input.name(), take).map_err(InputError::from)?;
        if n_objects == 0 {
            empty.push(input.name());
        }
    }
    progress.finish_and_clear();
    warn_about_empty(&empty);
    Ok(())
}
