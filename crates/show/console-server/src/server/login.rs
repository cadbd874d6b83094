//! The tokens of viewers, and the cookies that they become.

use berth_client::delegated::DelegatedAuthorizer;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{Content, Refusal, Server, with_status};
use crate::access::{Authenticator, VIEWED};

impl Server {
    /// Whether the viewer may see the console. A valid token in the URL becomes a cookie, and the answer leads to the URL
    /// without it.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
        query: &str,
    ) -> Result<Option<Response<Content>>, Refusal> {
        let token = match &self.options.authenticator {
            Authenticator::Token(token) => token,
            Authenticator::Delegated(authorizer) => {
                let given = self.viewer_token(headers)?.unwrap_or_default();
                return self.review(authorizer, given).await.map(|()| None);
            }
        };
        let parameters = || form_urlencoded::parse(query.as_bytes());
        if let Some((_, given)) = parameters().find(|(name, _)| name == "token") {
            if !token.is(&given) {
                return Err(self.unauthorized());
            }
            let mut rest = form_urlencoded::Serializer::new(String::new());
            rest.extend_pairs(parameters().filter(|(name, _)| name != "token"));
            return Ok(Some(self.redirect(token.secret(), path, &rest.finish())));
        }
        let is_valid = bearer(headers).is_some_and(|given| token.is(given))
            || cookies(headers, &self.cookie).any(|given| token.is(given));
        if is_valid { Ok(None) } else { Err(self.unauthorized()) }
    }

    /// The token of the cluster that the viewer has; none where viewers have that of the URL.
    pub(super) fn viewer_token<'a>(&'a self, headers: &'a HeaderMap) -> Result<Option<&'a str>, Refusal> {
        if matches!(self.options.authenticator, Authenticator::Token(_)) {
            return Ok(None);
        }
        let given = bearer(headers).or_else(|| cookies(headers, &self.cookie).next());
        given.filter(|given| !given.is_empty()).map(Some).ok_or_else(|| self.unauthorized())
    }

    async fn review(&self, authorizer: &DelegatedAuthorizer, token: &str) -> Result<(), Refusal> {
        authorizer.authorize_list(token.to_owned(), &VIEWED).await.map_err(|(status, message)| match status {
            StatusCode::UNAUTHORIZED => self.unauthorized(),
            _ => Refusal(status, message),
        })
    }

    /// A token of the cluster becomes a cookie.
    pub(super) async fn login(&self, form: &str) -> Result<Response<Content>, Refusal> {
        let given = form_urlencoded::parse(form.as_bytes()).find(|(name, _)| name == "token");
        let token = given.map(|(_, token)| token.trim().to_owned()).unwrap_or_default();
        // Of these characters are bearer tokens; others would end the cookie.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        match &self.options.authenticator {
            Authenticator::Delegated(authorizer) if !token.is_empty() && token.bytes().all(is_token) => {
                self.review(authorizer, &token).await?;
                Ok(self.redirect(&token, "/", ""))
            }
            _ => Err(self.unauthorized()),
        }
    }

    fn unauthorized(&self) -> Refusal {
        let message = match self.options.authenticator {
            Authenticator::Token(_) => {
                "The console needs the token of its URL: open the whole URL that berth printed when it started, which ends \
                 with ?token=... . A token is valid until the command ends."
            }
            Authenticator::Delegated(_) => {
                "The console needs a token of the cluster, of a user or a service account who may list nodes and pods: \
                 send it as Authorization: Bearer, or enter it here. kubectl create token prints that of a service account."
            }
        };
        Refusal(StatusCode::UNAUTHORIZED, message.to_owned())
    }

    fn redirect(&self, token: &str, path: &str, query: &str) -> Response<Content> {
        // `//name` would lead to another host.
        let path = path.trim_start_matches(['/', '\\']);
        let location = if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") };
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}", self.cookie);
        let mut response = with_status(StatusCode::SEE_OTHER, Content::Whole(Bytes::new()));
        for (name, value) in [(header::LOCATION, location), (header::SET_COOKIE, cookie)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}
