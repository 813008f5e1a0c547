//! HTTP to the service: bounded in size and time, no redirects, no proxies, no anchors but those configured.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::error::Error;
use super::url::ServiceUrl;
use crate::protocol::json;
use crate::protocol::message::Problem;
use crate::wire::limits;
use crate::wire::text::{foreign, reason};

/// Seconds in which a connection must stand.
const CONNECT_S: u64 = 10;
/// Bytes of the headers of an answer.
const HEADERS_LEN_MAX: usize = 16 * 1024;

/// Asks one service.
#[derive(Debug)]
pub struct Client {
    http: ureq::Agent,
    service: ServiceUrl,
}

/// What came back, of whatever status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// From the header `Retry-After`, which a proxy or balancer may have set.
    pub retry_after_s: Option<u32>,
    /// From the header `Upgrade`: the versions that a service of another one speaks.
    pub upgrade: Option<String>,
    pub body: Vec<u8>,
}

impl Client {
    /// Prepares; nothing is sent.
    ///
    /// Units: `timeout_s` for a whole exchange, name resolution included.
    pub fn new(service: ServiceUrl, anchors: &[CertificateDer<'_>], timeout_s: u32) -> Self {
        let anchors: Vec<_> =
            anchors.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::from(anchors))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let timeout = Duration::from_secs(u64::from(timeout_s));
        let http = ureq::Agent::config_builder()
            .tls_config(tls)
            .https_only(!service.is_plain())
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(Duration::from_secs(CONNECT_S))))
            .max_response_header_size(HEADERS_LEN_MAX)
            // A kept connection may have died with the service's restart, and what was sent is not sent twice unseen.
            .max_idle_connections(0)
            .user_agent(concat!("claviger-agent/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Self { http, service }
    }

    /// Sends a JSON body and returns what comes back, whatever its status.
    ///
    /// Errors: `Unreachable`; `Reply` for an answer of more than `len_max` bytes.
    pub fn post(&self, route: &str, body: &[u8], len_max: usize) -> Result<Answer, Error> {
        let request = self.http.post(self.service.route(route)).content_type("application/json");
        let mut response = request.send(body).map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after_s = header("retry-after").and_then(|value| value.parse().ok());
        let upgrade = header("upgrade").map(str::to_string);
        let len_max = u64::try_from(len_max).unwrap_or(u64::MAX);
        let body =
            response.body_mut().with_config().limit(len_max).read_to_vec().map_err(|error| match error {
                ureq::Error::BodyExceedsLimit(_) => {
                    Error::Reply { status, what: format!("more than {len_max} bytes") }
                }
                other => unreachable(&other),
            })?;
        Ok(Answer { status, retry_after_s, upgrade, body })
    }
}

fn unreachable(error: &ureq::Error) -> Error {
    Error::Unreachable { what: reason(&error.to_string()) }
}

/// Reads an answer that is neither a grant nor a denial: what it says is nobody's signed word, so it decides nothing.
pub fn undecided(answer: &Answer) -> Error {
    let status = answer.status;
    if (300..400).contains(&status) {
        return Error::Reply { status, what: "a redirect, which is not followed".to_string() };
    }
    // Whatever document comes with it: that of a later version may have another form.
    if status == 426 {
        return Error::OtherVersion { spoken: answer.upgrade.clone() };
    }
    match json::parse::<Problem>("problem", &answer.body, limits::GUEST_BODY_LEN_MAX) {
        Ok(problem) => {
            let retry_after_s = problem.retry_after_s.or(answer.retry_after_s);
            Error::Service { status, code: problem.code, retry_after_s }
        }
        Err(_) => match (status, answer.retry_after_s) {
            (429 | 502..=504, retry_after_s) => {
                Error::Service { status, code: crate::wire::Code::AgentServiceUnreachable, retry_after_s }
            }
            _ => Error::Reply { status, what: stated_code(&answer.body) },
        },
    }
}

/// Shows the code that a document states, also one that this version does not know.
pub fn stated_code(body: &[u8]) -> String {
    let value = json::parse::<serde_json::Value>("problem", body, limits::GUEST_BODY_LEN_MAX).ok();
    match value.as_ref().and_then(|value| value.get("code")).and_then(|code| code.as_str()) {
        Some(code) => foreign(code),
        None => "no problem document".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    fn answer(status: u16, retry_after_s: Option<u32>, body: &str) -> Answer {
        Answer { status, retry_after_s, upgrade: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_problem_tells_its_code_and_how_long_to_wait() {
        let body =
            r#"{"type":"about:blank","title":"t","status":503,"code":"store_unavailable","retry_after_s":7}"#;
        let expected = Error::Service { status: 503, code: Code::StoreUnavailable, retry_after_s: Some(7) };
        assert_eq!(undecided(&answer(503, Some(3), body)), expected);
    }

    #[test]
    fn a_balancer_s_page_is_waited_for_and_a_redirect_is_not_followed() {
        assert_eq!(undecided(&answer(503, Some(9), "<html>")).retry_after_s(), Some(9));
        assert!(undecided(&answer(307, None, "")).to_string().contains("redirect"));
    }

    #[test]
    fn what_the_tls_library_says_is_shown_to_the_end() {
        let said = "invalid peer certificate: certificate not valid for name \"127.0.0.1\"; certificate is only valid \
                    for DnsName(\"keys.example.com\")";
        let error = unreachable(&ureq::Error::Io(std::io::Error::other(said)));
        assert!(error.to_string().contains(said), "{error}");
    }

    #[test]
    fn a_code_of_a_later_version_is_shown() {
        let body = r#"{"type":"x","title":"t","status":409,"code":"version_from_tomorrow"}"#;
        assert!(undecided(&answer(409, None, body)).to_string().contains("`version_from_tomorrow`"));
    }
}
