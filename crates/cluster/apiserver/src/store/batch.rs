//! Records that are decoded at once, by all processors: a store holds millions of objects.

use std::num::NonZero;
use std::thread;

use super::collections::Collections;
use super::entry::Entry;
use super::record::{Kind, Record};

/// So many bytes are decoded at once.
const FULL: usize = 8 << 20;
/// Fewer records are not worth a thread.
const LEAST: usize = 64;

/// Records in the order of the file.
#[derive(Debug, Default)]
pub struct Batch {
    /// Their texts, one after the other.
    texts: Vec<u8>,
    records: Vec<Undecoded>,
}

#[derive(Debug)]
struct Undecoded {
    /// The offset in the file.
    at: u64,
    kind: Kind,
    revision: u64,
    end: usize,
}

impl Batch {
    /// Appends the record at an offset of the file.
    pub fn push(&mut self, at: u64, record: &Record<'_>) {
        self.texts.extend_from_slice(record.text);
        let (kind, revision) = (record.kind, record.revision);
        self.records.push(Undecoded { at, kind, revision, end: self.texts.len() });
    }

    /// Whether it should be replayed before more is appended.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= FULL
    }

    /// Repeats the records in their order. The batch is empty then.
    ///
    /// # Errors
    /// The offset of the first record whose text has no meaning, and why. Those after it are not repeated.
    pub fn replay(&mut self, collections: &Collections) -> Result<(), (u64, String)> {
        let starts = [0].into_iter().chain(self.records.iter().map(|record| record.end));
        let texts: Vec<_> = self.records.iter().zip(starts).collect();
        let decode = |(record, start): &(&Undecoded, usize)| {
            let text = &self.texts[*start..record.end];
            let entry = Entry::decode(record.kind, record.revision, text, collections.parts());
            entry.map_err(|why| (record.at, why))
        };
        let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
        let share = texts.len().div_ceil(n_threads).max(LEAST);
        thread::scope(|scope| {
            let decode_all = |records: &[_]| records.iter().map(decode).collect::<Vec<_>>();
            let shares: Vec<_> =
                texts.chunks(share).map(|records| scope.spawn(move || decode_all(records))).collect();
            for decoded in shares {
                let entries = decoded.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                for entry in entries {
                    entry?.replay(collections);
                }
            }
            Ok(())
        })?;
        self.texts.clear();
        self.records.clear();
        Ok(())
    }
}
