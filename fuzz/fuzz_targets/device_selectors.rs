//! Selectors of devices, `EXPRESSION \0 DEVICE`: each is refused or evaluated within the limits.
#![no_main]

use berth_api::object::device::Device;
use berth_rules::{DeviceSelector, SelectedDevice};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == 0) else { return };
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let Ok(device) = serde_json::from_slice::<Device>(&data[end + 1..]) else { return };
    if let Ok(selector) = DeviceSelector::compile(text) {
        let _ = selector.exceeds_cost_limit();
        let _ = selector.matches(&SelectedDevice {
            driver: "gpu.example.com",
            allow_multiple_allocations: device.allow_multiple_allocations,
            attributes: &device.attributes,
            capacity: &device.capacity,
        });
    }
});
