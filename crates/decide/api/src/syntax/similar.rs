//! Similar names, for "did you mean".

/// Longer texts are not compared.
const LONGEST: usize = 256;

/// The edit distance of two texts without regard to case, if they could be the same word with typing errors.
pub fn distance(given: &str, other: &str) -> Option<usize> {
    if given.len().max(other.len()) > LONGEST {
        return None;
    }
    let distance = strsim::osa_distance(&given.to_lowercase(), &other.to_lowercase());
    (distance <= 2.min(given.chars().count() / 2) || distance <= given.chars().count() / 5)
        .then_some(distance)
}

/// The most similar of the candidates, the first of equals.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.into_iter().filter_map(|other| Some((distance(given, other)?, other)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// The positions of the names of objects that someone who gave a name may have meant, the most similar first: names with or
/// within it, with typing errors, or of the same owner.
pub fn positions<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let ranked = names.into_iter().enumerate();
    let mut ranked: Vec<_> = ranked.filter_map(|(i, name)| Some((rank(given, name)?, name, i))).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, i)| i).collect()
}

/// How similar a name is, 0 is most; none if it is not.
fn rank(wanted: &str, other: &str) -> Option<usize> {
    // The name without the suffix that a controller appends.
    let owner = wanted.rsplit_once('-').map_or(wanted, |(owner, _)| owner);
    if other.contains(wanted) || wanted.contains(other) {
        Some(0)
    } else {
        distance(wanted, other).or_else(|| other.starts_with(owner).then_some(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_typing_errors_are_similar() {
        let fields = ["affinity", "tolerations", "nodeName", "os"];
        assert_eq!(nearest("affinty", fields), Some("affinity"));
        assert_eq!(nearest("NODENAME", fields), Some("nodeName"));
        assert_eq!(nearest("tolaration", fields), Some("tolerations"));
        assert_eq!(nearest("x", fields), None);
        assert_eq!(nearest("replicas", fields), None);
    }
}
