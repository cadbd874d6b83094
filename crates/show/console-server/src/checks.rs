//! Where requests may come from: checks against DNS rebinding and against requests of other sites.

use std::net::SocketAddr;

use http::{HeaderMap, Method, Request, header};

/// The names under which the console is reached.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Names with a port stand for that port, others for all ports.
    names: Vec<String>,
}

impl Hosts {
    /// The loopback names and the address with its port, and the given names. `is_forwarded`: the port of a forwarder on
    /// loopback may be any.
    pub fn new(address: SocketAddr, given: &[String], is_forwarded: bool) -> Hosts {
        let port = if is_forwarded { String::new() } else { format!(":{}", address.port()) };
        let loopback = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}{port}"));
        let given = given.iter().map(|name| name.to_ascii_lowercase());
        Hosts { names: loopback.into_iter().chain([address.to_string()]).chain(given).collect() }
    }

    fn allow(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let without_port = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &host,
        };
        self.names.iter().any(|name| *name == host || name == without_port)
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    Host,
    Site,
}

/// Refuses requests to other names, and requests of pages of other sites; these may only link to the console.
pub fn check<B>(request: &Request<B>, hosts: &Hosts, scheme: &str) -> Result<(), Foreign> {
    let headers = request.headers();
    let mut named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| named.next()).ok_or(Foreign::Host)?;
    if !hosts.allow(host) || named.any(|other| other != host) {
        return Err(Foreign::Host);
    }
    let is_own_origin = text(headers, "origin").is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(with, of)| with == scheme && of.eq_ignore_ascii_case(host))
    });
    let is_navigation = request.method() == Method::GET
        && text(headers, "sec-fetch-mode") == Some("navigate")
        && text(headers, "sec-fetch-dest") == Some("document");
    let is_own_site = matches!(text(headers, "sec-fetch-site"), None | Some("same-origin" | "none"));
    if is_own_origin && (is_own_site || is_navigation) { Ok(()) } else { Err(Foreign::Site) }
}

/// A header; one that is not text is the empty text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_other_ports_and_other_names_are_foreign() {
        let hosts = Hosts::new(([127, 0, 0, 1], 8080).into(), &["Console.Example".to_owned()], false);
        for (host, is) in [
            ("localhost:8080", true),
            ("LOCALHOST:8080", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("console.example", true),
            ("console.example:8443", true),
            ("localhost", false),
            ("localhost:8081", false),
            ("localhost:8080.attacker.example", false),
            ("127.0.0.1.attacker.example:8080", false),
            ("attacker.example:8080", false),
            ("", false),
        ] {
            assert_eq!(hosts.allow(host), is, "{host}");
        }
        let hosts = Hosts::new(([0, 0, 0, 0], 8443).into(), &[], true);
        assert!(
            hosts.allow("localhost:10443") && hosts.allow("[::1]:1") && !hosts.allow("attacker.example:8443")
        );
    }

    #[test]
    fn pages_of_other_sites_may_only_link_to_the_console() {
        let hosts = Hosts::new(([127, 0, 0, 1], 8080).into(), &[], false);
        let own = ("host", "localhost:8080");
        let checked = |method: Method, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check(&request.body(()).unwrap(), &hosts, "http")
        };
        let navigation = [
            own,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(checked(Method::GET, &[own]), Ok(()));
        assert_eq!(checked(Method::GET, &[]), Err(Foreign::Host));
        assert_eq!(checked(Method::GET, &[own, ("host", "attacker.example")]), Err(Foreign::Host));
        assert_eq!(checked(Method::GET, &navigation), Ok(()));
        assert_eq!(checked(Method::POST, &navigation), Err(Foreign::Site));
        for (name, value, is) in [
            ("sec-fetch-site", "same-origin", Ok(())),
            ("sec-fetch-site", "none", Ok(())),
            ("sec-fetch-site", "same-site", Err(Foreign::Site)),
            ("sec-fetch-site", "cross-site", Err(Foreign::Site)),
            ("origin", "http://localhost:8080", Ok(())),
            ("origin", "https://localhost:8080", Err(Foreign::Site)),
            ("origin", "http://localhost:8081", Err(Foreign::Site)),
            ("origin", "http://127.0.0.1:8080", Err(Foreign::Site)),
            ("origin", "null", Err(Foreign::Site)),
        ] {
            assert_eq!(checked(Method::POST, &[own, (name, value)]), is, "{name}: {value}");
        }
    }
}
