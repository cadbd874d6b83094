//! The user of a request: its token, and impersonation.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::authn::{API_AUDIENCE, Authenticator};
use crate::authz::Authorizer;
use crate::request::{ApiResult, Attributes, Reason, Status, User, decode, refusal, service_account};

/// The prefix of headers whose rest is a key of `extra`.
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

pub fn authenticate(
    authenticator: &Authenticator,
    authorizer: &Authorizer,
    headers: &HeaderMap,
) -> ApiResult<Arc<User>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return impersonated(authorizer, Arc::new(User::anonymous()), headers);
    };
    let user = match value.to_str().ok().and_then(|text| text.split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            authenticator.authenticate(token.trim(), &[API_AUDIENCE]).map(|(user, _)| user)
        }
        _ => None,
    };
    impersonated(authorizer, user.ok_or_else(unauthorized)?, headers)
}

/// The impersonated user of a request, if the user may impersonate it.
fn impersonated(authorizer: &Authorizer, user: Arc<User>, headers: &HeaderMap) -> ApiResult<Arc<User>> {
    let wanted = requested(headers)?;
    let Some(wanted) = wanted else { return Ok(user) };
    let core = Attributes { verb: "impersonate", ..Attributes::default() };
    let fact = Attributes { group: AUTHENTICATION, ..core };
    let account = service_account(&wanted.name);
    let mut taken = vec![match account {
        Some((namespace, name)) => Attributes { resource: "serviceaccounts", namespace, name, ..core },
        None => Attributes { resource: "users", name: &wanted.name, ..core },
    }];
    taken.extend(wanted.groups.iter().map(|name| Attributes { resource: "groups", name, ..core }));
    let uid = Some(wanted.uid.as_str()).filter(|uid| !uid.is_empty());
    taken.extend(uid.map(|name| Attributes { resource: "uids", name, ..fact }));
    for (subresource, values) in &wanted.extra {
        let of_key = Attributes { resource: "userextras", subresource, ..fact };
        taken.extend(values.iter().map(|name| Attributes { name, ..of_key }));
    }
    for what in taken {
        if !authorizer.allows(&user, &what) {
            let dot = if what.group.is_empty() { "" } else { "." };
            let why = refusal(&user, &what);
            let message = format!("{}{dot}{} {:?} is forbidden: {why}", what.resource, what.group, what.name);
            return Err(Status::new(Reason::Forbidden, message));
        }
    }
    Ok(Arc::new(wanted.with_implied_groups()))
}

/// The user whom the headers name, with exactly the groups, uid and extra of the headers; `None` if they name none.
fn requested(headers: &HeaderMap) -> ApiResult<Option<User>> {
    let text = |name: &HeaderName, value: &HeaderValue| match value.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Status::bad_request(format!("the value of header {name} is not text"))),
    };
    let mut user = User { extra: BTreeMap::new(), ..User::default() };
    for (name, value) in headers {
        match name.as_str() {
            "impersonate-user" if user.name.is_empty() => user.name = text(name, value)?,
            "impersonate-uid" if user.uid.is_empty() => user.uid = text(name, value)?,
            "impersonate-group" => user.groups.push(text(name, value)?),
            other => {
                let Some(key) = other.strip_prefix(EXTRA_PREFIX) else { continue };
                let key = decode(key, false).unwrap_or_else(|| key.to_owned());
                user.extra.entry(key).or_default().push(text(name, value)?);
            }
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user", user.info())))
}

/// The answer to a request without a valid token.
pub fn unauthorized() -> Box<Status> {
    Status::new(Reason::Unauthorized, "Unauthorized")
}
