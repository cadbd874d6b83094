//! A disk that stops in the middle of a write.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use berth_apiserver::DiskIo;

/// A disk that stops after a number of bytes, in the middle of a write.
#[derive(Debug)]
pub struct StoppingDisk {
    bytes_left: Mutex<u64>,
    stopped: AtomicBool,
}

impl StoppingDisk {
    pub fn new(bytes: u64) -> Arc<StoppingDisk> {
        Arc::new(StoppingDisk { bytes_left: Mutex::new(bytes), stopped: AtomicBool::new(false) })
    }

    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Changes the number of bytes.
    pub fn stop_after(&self, bytes: u64) {
        *self.bytes_left.lock().unwrap() = bytes;
    }

    fn check(&self) -> io::Result<()> {
        if self.stopped() { Err(io::Error::other("the disk has stopped")) } else { Ok(()) }
    }
}

impl DiskIo for StoppingDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let mut left = self.bytes_left.lock().unwrap();
        self.check()?;
        let n = (*left).min(bytes.len() as u64);
        file.write_all_at(&bytes[..n as usize], offset)?;
        *left -= n;
        self.stopped.store(n < bytes.len() as u64, Ordering::SeqCst);
        self.check()
    }

    // The process is killed, and not the system: nothing depends on syncing.
    fn sync(&self, _: &File) -> io::Result<()> {
        self.check()
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.check()?;
        file.set_len(length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        std::fs::rename(from, to)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.check()
    }
}
