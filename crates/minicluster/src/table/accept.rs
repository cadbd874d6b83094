//! In which form a client wants an answer.

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object or list itself.
    Object,
    /// A `Table`, with this version of `meta.k8s.io`.
    Table(&'static str),
    /// `PartialObjectMetadata`, or a list of them, with this version of `meta.k8s.io`.
    Metadata(&'static str),
}

/// The first form of an `Accept` header that is served here; `None` if none is (406). No header asks for the object.
pub fn negotiate(accept: Option<&str>) -> Option<Form> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return Some(Form::Object) };
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        if !["application/json", "application/*", "*/*"].contains(&media_type) {
            return None;
        }
        let (mut target, mut group, mut version) = (None, None, None);
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => target = Some(value),
                Some(("g", value)) => group = Some(value),
                Some(("v", value)) => version = Some(value),
                _ => {}
            }
        }
        let Some(target) = target else { return Some(Form::Object) };
        let version = match (group, version) {
            (Some("meta.k8s.io"), Some("v1")) => "meta.k8s.io/v1",
            (Some("meta.k8s.io"), Some("v1beta1")) => "meta.k8s.io/v1beta1",
            _ => return None,
        };
        match target {
            "Table" => Some(Form::Table(version)),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Form::Metadata(version)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_served_is_taken() {
        for (accept, expected) in [
            (None, Some(Form::Object)),
            (Some(""), Some(Form::Object)),
            (Some("*/*"), Some(Form::Object)),
            (Some("application/vnd.kubernetes.protobuf, application/json"), Some(Form::Object)),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,\
                     application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                ),
                Some(Form::Table("meta.k8s.io/v1")),
            ),
            (
                Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
                Some(Form::Metadata("meta.k8s.io/v1")),
            ),
            (Some("application/json;as=Chart;g=meta.k8s.io;v=v1, application/json"), Some(Form::Object)),
            (Some("application/json;as=Table;g=meta.k8s.io;v=v7"), None),
            (Some("text/html"), None),
        ] {
            assert_eq!(negotiate(accept), expected, "{accept:?}");
        }
    }
}
