//! URLs: absolute URIs and absolute paths.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    pub user: String,
    pub host: String,
    pub path: String,
    pub query: String,
    pub fragment: String,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// The reason, as the reference words it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let problem =
            |reason: &str| format!("URL parse error during conversion from string: parse {text:?}: {reason}");
        if text.is_empty() {
            return Err(problem("empty url"));
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(problem("net/url: invalid control character in URL"));
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some(("", _)) => return Err(problem("missing protocol scheme")),
            Some((scheme, after)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), after),
            _ => (String::new(), rest),
        };
        if !rest.starts_with('/') && scheme.is_empty() {
            return Err(problem("invalid URI for request"));
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                rest.split_at(rest.find('/').unwrap_or(rest.len()))
            }
            _ => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        check_host(host).map_err(|reason| problem(&reason))?;
        check_escapes(path).map_err(|reason| problem(&reason))?;
        let owned = str::to_owned;
        Ok(Url {
            scheme,
            user: owned(user),
            host: owned(host),
            path: owned(path),
            query: owned(query),
            fragment: owned(fragment),
        })
    }

    /// The host, and the port without its colon.
    pub fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (&*self.host, ""),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inner.unwrap_or(host), port)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if let Some(address) = host.strip_prefix('[') {
        let Some((_, port)) = address.rsplit_once(']') else { return Err("missing ']' in host".to_owned()) };
        port
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let digits = port.strip_prefix(':').unwrap_or("");
    if !port.is_empty() && (!port.starts_with(':') || !digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("invalid port {port:?} after host"));
    }
    if host.contains(' ') {
        return Err("invalid character \" \" in host name".to_owned());
    }
    check_escapes(host)
}

pub fn check_escapes(text: &str) -> Result<(), String> {
    for part in text.split('%').skip(1) {
        let is_valid = part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if !is_valid {
            let escape: String = part.chars().take(2).collect();
            return Err(format!("invalid URL escape \"%{escape}\""));
        }
    }
    Ok(())
}
