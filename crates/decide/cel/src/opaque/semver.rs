//! Semantic versions, after version 2.0.0 of their specification.

use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre_release: Vec<Identifier>,
}

/// An identifier of a pre-release. Numbers are below texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Semver {
    /// Reads a version.
    ///
    /// # Errors
    /// The text is no version; the reason is the reference's.
    pub fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number("major", "Major", major)?, number("minor", "Minor", minor)?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(rest, pre)| (rest, Some(pre)));
        let patch = number("patch", "Patch", patch)?;
        let pre_release = pre.into_iter().flat_map(|pre| pre.split('.')).map(identifier);
        let pre_release = pre_release.collect::<Result<_, _>>()?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_alphanumeric(part) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Semver { major, minor, patch, pre_release })
    }

    /// The same for texts with a `v`, with leading zeros, or without minor or patch number.
    pub fn parse_normalized(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(parts.len().max(3), "0".to_owned());
        Semver::parse(&parts.join("."))
    }

    /// The order of versions. Build metadata does not count.
    pub fn cmp_precedence(&self, other: &Semver) -> Ordering {
        let numbers = |version: &Semver| (version.major, version.minor, version.patch);
        let is_release = |version: &Semver| version.pre_release.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then(is_release(self).cmp(&is_release(other)))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let digits = part.trim_start_matches('0');
    if digits.starts_with(|c: char| c.is_ascii_digit()) { digits.to_owned() } else { format!("0{digits}") }
}

fn number(name: &str, at_start: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{at_start} number must not contain leading zeroes {text:?}"));
    }
    parse_number(text)
}

fn parse_number(text: &str) -> Result<u64, String> {
    let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {reason}"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return if is_alphanumeric(text) {
            Ok(Identifier::Text(text.to_owned()))
        } else {
            Err(format!("Invalid character(s) found in prerelease {text:?}"))
        };
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
    }
    parse_number(text).map(Identifier::Number)
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
