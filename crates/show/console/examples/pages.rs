//! Writes pages of a cluster from a file to a folder, for a look at them without a server:
//! `cargo run -p berth-console --example pages -- cluster.yaml FOLDER /path...`

use std::fs;

use berth_console::{Request, State, respond};
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, folder, paths @ ..] = arguments.as_slice() else {
        return Err("give a file, a folder and paths".into());
    };
    let mut inventory = Inventory::keeping_raw_but_pods();
    inventory.read(fs::File::open(file)?, file)?;
    let mut state = State::new(file.as_str(), inventory, SimulationOptions::default())?;
    fs::create_dir_all(format!("{folder}/assets"))?;
    for asset in ["console.css", "page.js"] {
        let path = format!("/assets/{asset}");
        fs::write(
            format!("{folder}{path}"),
            respond(&mut state, &Request { path: &path, ..Request::default() }).body,
        )?;
    }
    for (i, address) in paths.iter().enumerate() {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        for _ in 0..2 {
            let begin = std::time::Instant::now();
            let response = respond(&mut state, &Request { path, query, form: None });
            println!(
                "{i} {address}: {} {} bytes in {:?}",
                response.status,
                response.body.len(),
                begin.elapsed()
            );
            fs::write(format!("{folder}/{i}.html"), response.body.replace("\"/assets/", "\"assets/"))?;
        }
    }
    Ok(())
}
