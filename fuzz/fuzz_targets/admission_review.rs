//! AdmissionReviews: any body is refused or answered by every endpoint.
#![no_main]

use std::time::Instant;

use berth_admission::{AdmissionRequest, Endpoint, Nothing, Policy, review};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(request) = AdmissionRequest::from_review(data) else { return };
    for endpoint in Endpoint::ALL {
        if let Err(error) = review(endpoint, &request, &Policy::default(), &Nothing, Instant::now()) {
            assert!(!error.to_string().is_empty(), "refused without saying why");
        }
    }
});
