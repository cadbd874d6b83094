//! The stream of a watch in chunks, which the first bytes cut: lines and frames are read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((cut, stream)) = data.split_first() else { return };
    let chunks: Vec<&[u8]> = stream.chunks(usize::from(*cut) + 1).collect();
    berth_client::watch::fuzz_frames(&chunks);
});
