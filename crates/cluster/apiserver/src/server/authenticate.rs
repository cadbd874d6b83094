//! The user of a request: its token, checked against stored objects, and impersonation.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_schema::resource::{NODES, PODS, SECRETS, SERVICE_ACCOUNTS};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};

use super::authorize::{Attributes, refusal};
use super::identity::{API_AUDIENCE, Claims, User, service_account};
use super::query::decode;
use super::service::Shared;
use super::status::Status;

/// The prefix of headers whose rest is a key of `extra`.
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// How long a token outlives the deletion of an object that finalizers keep.
const DELETION_LEEWAY: SignedDuration = SignedDuration::from_secs(60);
const AUTHENTICATION: &str = "authentication.k8s.io";

impl Shared {
    /// The user of a token and those of the audiences for which it is valid; `None` if it is valid for none of them, has
    /// expired, or an object on which it depends does not exist.
    pub fn authenticate_token(&self, token: &str, audiences: &[&str]) -> Option<(Arc<User>, Vec<String>)> {
        let identity = self.tokens.authenticate(token)?;
        // Other tokens than those of service accounts are for this server.
        let own = identity.claims.as_ref().map(|claims| claims.audiences.as_slice());
        let is_for = |audience: &&str| match own {
            Some(own) => own.iter().any(|own| own == audience),
            None => *audience == API_AUDIENCE,
        };
        let valid: Vec<String> = audiences.iter().copied().filter(is_for).map(str::to_owned).collect();
        let holds = identity.claims.as_ref().is_none_or(|claims| self.claims_hold(claims));
        (!valid.is_empty() && holds).then_some((identity.user, valid))
    }

    /// Whether the account and the bound object of a token exist, or are deleted since a moment only.
    fn claims_hold(&self, claims: &Claims) -> bool {
        let now = Timestamp::now();
        let exists = |resource, namespace: &str, name: &str, uid: &str| {
            self.store.get(resource, namespace, name).is_some_and(|object| {
                let metadata = &object.value()["metadata"];
                let deleted =
                    metadata["deletionTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
                metadata["uid"] == uid && deleted.is_none_or(|at| now < at + DELETION_LEEWAY)
            })
        };
        let bound = claims.bound.as_ref();
        exists(&SERVICE_ACCOUNTS, &claims.namespace, &claims.name, &claims.uid)
            && bound.is_none_or(|bound| match bound.kind.as_str() {
                "Pod" => exists(&PODS, &claims.namespace, &bound.name, &bound.uid),
                "Secret" => exists(&SECRETS, &claims.namespace, &bound.name, &bound.uid),
                _ => exists(&NODES, "", &bound.name, &bound.uid),
            })
    }

    /// The user of a request.
    ///
    /// # Errors
    /// The token is not valid, or the user may not impersonate.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Arc<User>, Box<Status>> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return self.impersonated(Arc::new(User::anonymous()), headers);
        };
        let user = match value.to_str().ok().and_then(|text| text.split_once(' ')) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                self.authenticate_token(token.trim(), &[API_AUDIENCE]).map(|(user, _)| user)
            }
            _ => None,
        };
        self.impersonated(user.ok_or_else(unauthorized)?, headers)
    }

    /// The impersonated user of a request, if the user may impersonate it.
    fn impersonated(&self, user: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, Box<Status>> {
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
            if !self.allows(&user, &what) {
                let dot = if what.group.is_empty() { "" } else { "." };
                let why = refusal(&user, &what);
                let message =
                    format!("{}{dot}{} {:?} is forbidden: {why}", what.resource, what.group, what.name);
                return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
            }
        }
        Ok(Arc::new(wanted.with_implied_groups()))
    }
}

/// The user whom the headers name, with exactly the groups, uid and extra of the headers; `None` if they name none.
fn requested(headers: &HeaderMap) -> Result<Option<User>, Box<Status>> {
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
    Status::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
}
