//! Scheduler configurations: any text is either refused with findings or resolved into profiles that keep
//! their promises.
#![no_main]

use std::collections::HashSet;

use berth_input::config::SchedulerConfig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(value) = serde_saphyr::from_str::<serde_json::Value>(text) else { return };
    match SchedulerConfig::read(&value) {
        Ok((config, _)) => {
            let names: HashSet<_> = config.profiles.iter().map(|p| p.scheduler_name.as_str()).collect();
            assert!(
                !names.is_empty() && names.len() == config.profiles.len(),
                "names must be unique: {names:?}"
            );
            for profile in &config.profiles {
                assert!(profile.score.iter().all(|(_, weight)| *weight >= 1));
                assert!((0..=100).contains(&profile.inter_pod_affinity.hard_pod_affinity_weight));
                assert!(!profile.balanced_allocation.resources.is_empty());
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty(), "refused without saying why"),
    }
});
