//! The service's address: read strictly, so that a slip is told before any network use.

use std::fmt;
use std::net::IpAddr;

use super::error::Error;

/// Address of the guest listener: scheme, host, port, and a path below which the routes stand.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    text: String,
    plain: bool,
}

impl ServiceUrl {
    /// Reads an address.
    ///
    /// Shape: `https://host[:port][/path]`; no user, query or fragment. With `danger_plaintext` also `http://` to a
    /// loopback address, given as a number: a name could lead elsewhere.
    ///
    /// Errors: `Url` with the faulty part.
    pub fn parse(text: &str, danger_plaintext: bool) -> Result<Self, Error> {
        let wrong = |part: &str, expected| Err(Error::Url { part: part.to_string(), expected });
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong(text, "`https://` and a host");
        };
        let plain = match scheme {
            "http" => true,
            "https" => false,
            _ => return wrong(scheme, "the scheme `https`"),
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let host = host(authority)?;
        let path = path.trim_end_matches('/');
        let segment = |s: &str| {
            !matches!(s, "" | "." | "..")
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if !path.is_empty() && !path[1..].split('/').all(segment) {
            return wrong(path, "a path of letters, digits, `-`, `_`, `.`");
        }
        if plain {
            let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            if !danger_plaintext {
                return wrong(scheme, "the scheme `https` (`http` needs danger_plaintext)");
            }
            if !address.is_ok_and(|address| address.is_loopback()) {
                return wrong(host, "a loopback address as a number for `http`");
            }
        }
        Ok(Self { text: format!("{scheme}://{authority}{path}"), plain })
    }

    /// Returns the address of a route, which begins with `/`.
    pub fn route(&self, route: &str) -> String {
        format!("{}{route}", self.text)
    }

    /// Tells whether the address is one of plain HTTP.
    pub fn is_plain(&self) -> bool {
        self.plain
    }
}

/// Checks host and port; returns the host.
fn host(authority: &str) -> Result<&str, Error> {
    let wrong = |part: &str, expected| Err(Error::Url { part: part.to_string(), expected });
    let end = match authority.starts_with('[') {
        true => authority.find(']').map_or(authority.len(), |at| at + 1),
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let well_formed = match inner {
        Some(inner) => matches!(inner.parse(), Ok(IpAddr::V6(_))),
        None => {
            let label = |l: &str| {
                !l.is_empty()
                    && !l.starts_with('-')
                    && !l.ends_with('-')
                    && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            host.len() <= 253 && host.split('.').all(label)
        }
    };
    if !well_formed {
        return wrong(authority, "a host name or address");
    }
    if !port.is_empty() {
        let digits = port.strip_prefix(':').unwrap_or("");
        let decimal = digits.bytes().all(|b| b.is_ascii_digit());
        if !decimal || !digits.parse::<u16>().is_ok_and(|port| port > 0) {
            return wrong(port, "a port of 1 to 65535 after `:`");
        }
    }
    Ok(host)
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_address_is_refused_with_its_faulty_part() {
        for (bad, part) in [
            ("", "``"),
            ("http:10.0.0.1", "`http:10.0.0.1`"),
            ("https//x", "`https//x`"),
            ("https:///x", "``"),
            ("ftp://x", "`ftp`"),
            ("HTTPS://x", "`HTTPS`"),
            ("https://a b", "`a b`"),
            ("https://user@host", "`user@host`"),
            ("https://host:0", "`:0`"),
            ("https://host:65536", "`:65536`"),
            ("https://host:+1", "`:+1`"),
            ("https://host:", "`:`"),
            ("https://host:1:2", "`:1:2`"),
            ("https://[::1", "`[::1`"),
            ("https://[1.2.3.4]", "`[1.2.3.4]`"),
            ("https://[::1]x", "`x`"),
            ("https://-x", "`-x`"),
            ("https://host?a=b", "`?a=b`"),
            ("https://host/#a", "`/#a`"),
            ("https://host/a//b", "`/a//b`"),
            ("https://host/../b", "`/../b`"),
            ("https://host\n", "`host\\n`"),
            ("http://10.0.0.1", "`10.0.0.1`"),
            ("http://localhost", "`localhost`"),
        ] {
            let error = ServiceUrl::parse(bad, true).unwrap_err();
            let text = error.to_string();
            assert!(text.ends_with(&format!("found {part}")), "{bad:?}: {text}");
        }
    }

    #[test]
    fn plain_http_needs_its_flag_and_loopback() {
        for good in ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:8080/x"] {
            assert!(ServiceUrl::parse(good, true).unwrap().is_plain(), "{good}");
            assert!(ServiceUrl::parse(good, false).is_err(), "{good}");
        }
        assert!(!ServiceUrl::parse("https://127.0.0.1", true).unwrap().is_plain());
    }

    #[test]
    fn routes_stand_below_the_path() {
        let url = ServiceUrl::parse("https://host.example:8443/broker/", false).unwrap();
        assert_eq!(url.route("/attest"), "https://host.example:8443/broker/attest");
    }
}
