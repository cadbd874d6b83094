//! `berth webhook` with the embedded API server over TLS: its answers, and requests during a certificate change or
//! after a crash.

mod annotations;
mod answers;
mod bindings;
mod certificates;
mod in_process;
mod policies;
mod quotas;
mod world;
