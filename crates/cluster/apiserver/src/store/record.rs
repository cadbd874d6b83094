//! The format of the store's file.
//!
//! | offset | contents |
//! |---|---|
//! | 0 | magic (8 bytes), format (`u32`), checksum of both (`u32`) |
//! | 512, 1024 | two marks: end of the acknowledged records (`u64`), their last version (`u64`), checksum of both (`u32`) |
//! | 4096 | records: magic (4 bytes), checksum of the rest (`u32`), length of the text (`u32`), version (`u64`), kind (`u8`), text |
//!
//! Numbers are little-endian, checksums are CRC-32. The first record has the kind `Start`: its version is the one after which
//! all changes are in the file, and its text the number of `Object` records that follow. They are the objects at that version,
//! in their order. The other records are the changes after that version, one for each version.
//!
//! The magic of a record is not UTF-8, so that no text contains it: behind a damaged part, the next record can be found.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};

/// The format that this version reads and writes.
pub const FORMAT_VERSION: u32 = 2;
/// Where the records begin.
pub const RECORDS_AT: u64 = 4096;
/// Where the two marks are.
pub const MARKS_AT: [u64; 2] = [512, 1024];

const FILE_MAGIC: &[u8; 8] = b"\xb3BERTH\r\n";
const RECORD_MAGIC: [u8; 4] = [0xff, 0xb3, b'R', 0xfe];
/// Bytes of a record before its text.
const PREFIX: usize = 21;
/// Maximum length of a record's text.
pub const MAX_TEXT: usize = 64 << 20;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first record.
    Start,
    /// An object at the version of the first record.
    Object,
    Added,
    Modified,
    Deleted,
}

const KINDS: [(Kind, u8); 5] = [
    (Kind::Start, b's'),
    (Kind::Object, b'o'),
    (Kind::Added, b'a'),
    (Kind::Modified, b'm'),
    (Kind::Deleted, b'd'),
];

#[derive(Debug)]
pub struct Record<'b> {
    pub kind: Kind,
    pub revision: u64,
    pub text: &'b [u8],
    pub bytes: &'b [u8],
}

/// Appends a record whose text consists of parts.
///
/// # Errors
/// The text is too long.
pub fn write_record(out: &mut Vec<u8>, kind: Kind, revision: u64, text: &[&[u8]]) -> io::Result<()> {
    let length: usize = text.iter().map(|part| part.len()).sum();
    if length > MAX_TEXT {
        return Err(io::Error::other(format!("an object has more than {MAX_TEXT} bytes")));
    }
    let start = out.len();
    out.extend(RECORD_MAGIC);
    out.extend([0; 4]);
    out.extend((length as u32).to_le_bytes());
    out.extend(revision.to_le_bytes());
    out.extend(KINDS.iter().filter(|(listed, _)| *listed == kind).map(|(_, letter)| letter));
    for part in text {
        out.extend_from_slice(part);
    }
    let checksum = crc32fast::hash(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

#[derive(Debug)]
pub enum Defect {
    Io(io::Error),
    NoRecord,
    /// The file ends inside it.
    CutOff,
    Checksum,
    /// It is not the record that follows the previous one.
    Order(String),
    /// Its text has no meaning.
    Text(String),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::Io(error) => write!(f, "{error}"),
            Defect::NoRecord => f.write_str("no record begins here"),
            Defect::CutOff => f.write_str("the record is cut off"),
            Defect::Checksum => f.write_str("the checksum of the record is wrong"),
            Defect::Order(why) | Defect::Text(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Defect {
    fn from(error: io::Error) -> Defect {
        if error.kind() == io::ErrorKind::UnexpectedEof { Defect::CutOff } else { Defect::Io(error) }
    }
}

/// The records of a file, one after the other. It holds one of them in memory.
pub struct Records {
    file: BufReader<File>,
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
}

impl Records {
    /// The records between two offsets.
    ///
    /// # Errors
    /// The system cannot read the file.
    pub fn new(mut file: File, offset: u64, end: u64) -> io::Result<Records> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Records { file: BufReader::with_capacity(1 << 18, file), offset, end, buffer: Vec::new() })
    }

    /// Where the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record; `None` at the end. After a defect, use [`Records::skip`].
    ///
    /// # Errors
    /// The bytes are not a record.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Defect> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let available = self.end - self.offset;
        self.buffer.resize(PREFIX.min(available as usize), 0);
        self.file.read_exact(&mut self.buffer)?;
        if !self.buffer.starts_with(&RECORD_MAGIC) && !RECORD_MAGIC.starts_with(&self.buffer) {
            return Err(Defect::NoRecord);
        }
        let length = self.buffer.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let Some(length) = length.filter(|_| self.buffer.len() == PREFIX) else { return Err(Defect::CutOff) };
        let length = length as usize;
        if length > MAX_TEXT {
            return Err(Defect::Checksum);
        }
        if (PREFIX + length) as u64 > available {
            return Err(Defect::CutOff);
        }
        self.buffer.resize(PREFIX + length, 0);
        self.file.read_exact(&mut self.buffer[PREFIX..])?;
        if crc32fast::hash(&self.buffer[8..]).to_le_bytes() != self.buffer[4..8] {
            return Err(Defect::Checksum);
        }
        let kind = KINDS.iter().find(|(_, letter)| *letter == self.buffer[PREFIX - 1]);
        let (Some((kind, _)), Some(revision)) = (kind, u64_at(&self.buffer, 12)) else {
            return Err(Defect::Text("the record has an unknown kind".to_owned()));
        };
        self.offset += self.buffer.len() as u64;
        Ok(Some(Record { kind: *kind, revision, text: &self.buffer[PREFIX..], bytes: &self.buffer }))
    }

    /// Skips a record that cannot be read, up to the next possible one or the end.
    ///
    /// # Errors
    /// The system cannot read the file.
    pub fn skip(&mut self) -> io::Result<()> {
        self.offset += 1;
        self.file.seek(SeekFrom::Start(self.offset))?;
        let mut last = [0; 4];
        while self.offset < self.end {
            let mut byte = [0];
            if self.file.read(&mut byte)? == 0 {
                break;
            }
            self.offset += 1;
            last.rotate_left(1);
            last[3] = byte[0];
            if last == RECORD_MAGIC {
                self.offset -= 4;
                self.file.seek(SeekFrom::Start(self.offset))?;
                return Ok(());
            }
        }
        self.offset = self.end;
        Ok(())
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// How far the writes of a file have been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The end of the acknowledged records.
    pub end: u64,
    /// The version of the last of them.
    pub revision: u64,
}

impl Mark {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = [self.end.to_le_bytes(), self.revision.to_le_bytes()].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        let mark = Mark { end: u64_at(bytes, 0)?, revision: u64_at(bytes, 8)? };
        (u32_at(bytes, 16)? == crc32fast::hash(&bytes[..16])).then_some(mark)
    }
}

/// What is before the records, with both marks.
pub fn encode_head(mark: Mark) -> Vec<u8> {
    let mut head = [&FILE_MAGIC[..], &FORMAT_VERSION.to_le_bytes()].concat();
    head.extend(crc32fast::hash(&head).to_le_bytes());
    head.resize(RECORDS_AT as usize, 0);
    for at in MARKS_AT {
        let mark = mark.encode();
        head[at as usize..at as usize + mark.len()].copy_from_slice(&mark);
    }
    head
}

/// What is wrong with the first bytes of a file.
#[derive(Debug)]
pub enum HeadDefect {
    Format(u32),
    /// A defect at an offset.
    At(u64, String),
}

/// Reads what is before the records: the newer of the two marks, and which one it is.
///
/// # Errors
/// The file is not a store, has another format, or has no valid mark.
pub fn read_head(mut file: &File) -> Result<(Mark, usize), HeadDefect> {
    let mut head = vec![0; RECORDS_AT as usize];
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut head));
    read.map_err(|error| HeadDefect::At(0, format!("the head of the file cannot be read: {error}")))?;
    if head[..8] != FILE_MAGIC[..] || u32_at(&head, 12) != Some(crc32fast::hash(&head[..12])) {
        return Err(HeadDefect::At(0, "the head of the file is damaged".to_owned()));
    }
    match u32_at(&head, 8) {
        Some(FORMAT_VERSION) => {}
        other => return Err(HeadDefect::Format(other.unwrap_or_default())),
    }
    let marks = (0..MARKS_AT.len()).filter_map(|i| Some((Mark::decode(&head[MARKS_AT[i] as usize..])?, i)));
    marks.max().ok_or_else(|| HeadDefect::At(MARKS_AT[0], "both marks are damaged".to_owned()))
}
