//! The attribute of the types of Kubernetes objects. It has no parser of Rust: a struct with named fields is all that it reads.

use proc_macro::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// A type of JSON objects as Kubernetes reads and writes them: its fields have names in camel case, an absent or null field has its
/// default, and a field without content is not written. A field's own `serde` attribute that says how it is read or written replaces
/// this. The arguments are further traits to derive.
#[proc_macro_attribute]
pub fn object_type(traits: TokenStream, item: TokenStream) -> TokenStream {
    let mut object = attributes(&format!(
        "#[derive(Clone, Debug, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize, {traits})]
         #[serde(rename_all = \"camelCase\", default)]"
    ));
    object.extend(item.into_iter().map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Group::new(Delimiter::Brace, fields(group.stream())).into()
        }
        token => token,
    }));
    object
}

fn attributes(text: &str) -> TokenStream {
    text.parse().expect("attributes are tokens")
}

fn fields(tokens: TokenStream) -> TokenStream {
    let (mut fields, mut field, mut depth) = (TokenStream::new(), Vec::new(), 0);
    for token in tokens {
        let punctuation = if let TokenTree::Punct(punct) = &token { punct.as_char() } else { ' ' };
        depth += i32::from(punctuation == '<') - i32::from(punctuation == '>');
        field.push(token);
        if punctuation == ',' && depth == 0 {
            fields.extend(serde_attribute(&field));
            fields.extend(field.drain(..));
        }
    }
    fields
}

/// How a field is read and written. Its tokens end with a comma.
fn serde_attribute(field: &[TokenTree]) -> TokenStream {
    let says_how = |token: &TokenTree| {
        let text = token.to_string();
        text.starts_with("[serde") && (text.contains("with") || text.contains("skip"))
    };
    if field.iter().any(says_how) {
        return TokenStream::new();
    }
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Alone);
    let ty = field.iter().skip_while(|token| !is_colon(token)).skip(1).map(TokenTree::to_string);
    let ty: Vec<String> = ty.filter(|token| !["Shared", "<"].contains(&token.as_str())).take(1).collect();
    let has_no_content = match ty.first().map(String::as_str) {
        Some("Option") => return attributes("#[serde(skip_serializing_if = \"Option::is_none\")]"),
        Some("String") => "String::is_empty",
        Some("Vec") => "Vec::is_empty",
        Some("BTreeMap" | "StringMap" | "ResourceList") => "::std::collections::BTreeMap::is_empty",
        Some("Value") => "::serde_json::Value::is_null",
        Some("bool") => "::std::ops::Not::not",
        _ => return attributes("#[serde(deserialize_with = \"::berth_api::object::nullable\")]"),
    };
    attributes(&format!(
        "#[serde(deserialize_with = \"::berth_api::object::nullable\", skip_serializing_if = \"{has_no_content}\")]"
    ))
}
