//! Above which share of a node its pods request too much.

use std::fmt;
use std::str::FromStr;

/// Percentages of what a node offers. A node is above the threshold if its pods request more of either resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub cpu: u32,
    pub memory: u32,
}

impl Default for Threshold {
    fn default() -> Threshold {
        Threshold { cpu: 80, memory: 80 }
    }
}

impl Threshold {
    /// The one that fewer nodes are above.
    #[must_use]
    pub fn max(self, other: Threshold) -> Threshold {
        Threshold { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }
}

/// As `--threshold` takes it.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threshold { cpu, memory } if cpu == memory => write!(f, "{cpu}"),
            Threshold { cpu, memory } => write!(f, "cpu={cpu},memory={memory}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidThreshold(String);

impl fmt::Display for InvalidThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no threshold: use a percentage from 1 to 100 such as 80, or cpu=60,memory=70",
            self.0
        )
    }
}

impl std::error::Error for InvalidThreshold {}

/// Reads one percentage for both resources, or `cpu=PERCENT,memory=PERCENT`; a resource that is not named has 100.
impl FromStr for Threshold {
    type Err = InvalidThreshold;

    fn from_str(text: &str) -> Result<Threshold, InvalidThreshold> {
        let invalid = || InvalidThreshold(text.to_owned());
        let percent =
            |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent)).ok_or_else(invalid);
        if !text.contains('=') {
            let both = percent(text)?;
            return Ok(Threshold { cpu: both, memory: both });
        }
        let mut threshold = Threshold { cpu: 100, memory: 100 };
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("cpu", share)) => threshold.cpu = percent(share)?,
                Some(("memory", share)) => threshold.memory = percent(share)?,
                _ => return Err(invalid()),
            }
        }
        Ok(threshold)
    }
}
