//! Generated names, hashes and uids, without randomness.
//!
//! A pod of a ReplicaSet, DaemonSet, Job or ReplicationController is named `<owner>-<suffix>`. The suffix has five
//! characters of Kubernetes' alphabet. It depends on the owner's name and the number of the pod, so the same input gives
//! the same names. Names in use are skipped.

/// Kubernetes' alphabet for generated names: without vowels and easily confused characters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const SUFFIX_LEN: usize = 5;
const N_SUFFIXES: u64 = (ALPHABET.len() as u64).pow(SUFFIX_LEN as u32);

/// Longest prefix of a generated name: 63 characters less the suffix.
const MAX_PREFIX_LEN: usize = 58;

/// `<owner>-`, cut to leave room for a suffix.
pub(super) fn generate_name(owner: &str) -> String {
    format!("{owner}-").chars().take(MAX_PREFIX_LEN).collect()
}

/// The suffix of the `number`th pod; different numbers below 27⁵ have different suffixes.
pub fn suffix(prefix: &str, number: u64) -> String {
    // The step is coprime to the number of suffixes, so it visits all of them.
    const STEP: u64 = 7_654_321;
    let start = fnv_1a(prefix.as_bytes()) % N_SUFFIXES;
    encode((start + number % N_SUFFIXES * STEP) % N_SUFFIXES, SUFFIX_LEN)
}

pub(super) fn ordinal(pod: &str) -> Option<i64> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// The value of the label `pod-template-hash`, part of ReplicaSet names.
pub(super) fn template_hash(template: &serde_json::Value) -> String {
    encode(fnv_1a(template.to_string().as_bytes()) >> 32, 7)
}

/// The uid of an object that no server has stored.
pub fn synthetic_uid(kind: &str, namespace: &str, name: &str) -> String {
    let text = format!("{kind}/{namespace}/{name}");
    let high = fnv_1a(text.as_bytes());
    let low = fnv_1a(format!("{text}/{high}").as_bytes());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

fn encode(mut number: u64, len: usize) -> String {
    let base = ALPHABET.len() as u64;
    (0..len)
        .map(|_| {
            let digit = number % base;
            number /= base;
            char::from(ALPHABET[digit as usize])
        })
        .collect()
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_are_distinct_and_fit() {
        let suffixes: HashSet<String> = (0..100_000).map(|n| suffix("web-", n)).collect();
        assert_eq!(suffixes.len(), 100_000);
        let last = [N_SUFFIXES - 1, N_SUFFIXES].map(|n| suffix("web-", n));
        assert_eq!(last[1], suffix("web-", 0));
        assert_ne!(last[0], last[1]);
        assert_eq!(generate_name(&"ä".repeat(100)).chars().count() + SUFFIX_LEN, 63);
    }
}
