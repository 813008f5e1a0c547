//! Bundles of other projects: recognised by name, each part verified by our code, and refused for what binds the parts,
//! which is another scheme than ours. Nothing of the scheme is believed; it is told whether it holds by its own rule.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::list::{self, Device};
use crate::wire::crypto;
use crate::wire::text::foreign;

/// How the parts of such a bundle are bound to one another, by its own rule.
///
/// - `Phala`: report data holds a signing address (20 bytes), zeroes and the nonce that the GPUs signed.
/// - `Tinfoil`: report data holds SHA-256 of TLS key, HPKE key, nonce and a digest of the GPU evidence, then zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Phala,
    Tinfoil,
}

/// The name of Tinfoil's documents, up to their version.
const TINFOIL: &str = "https://tinfoil.sh/predicate/attestation/";
const TINFOIL_VERSION: &str = "v3";

impl Scheme {
    /// Names the scheme and its rule.
    pub fn text(self) -> &'static str {
        match self {
            Self::Phala => "Phala's: report data is a signing address, zeroes and the nonce of the GPUs",
            Self::Tinfoil => {
                "Tinfoil's (attestation v3): report data is SHA-256 of TLS key, HPKE key, nonce and the hash of the \
                 GPU evidence"
            }
        }
    }
}

/// A bundle of another project.
pub struct Foreign {
    pub scheme: Scheme,
    pub quote: Vec<u8>,
    pub gpus: Vec<Device>,
    /// What the GPUs signed, by the scheme.
    pub nonce: [u8; 32],
    /// What the report data must be by the scheme's own rule; `None` where the document does not let it be computed.
    pub report_data: Option<[u8; 64]>,
}

/// Recognises a bundle of another project. `None` for everything else.
///
/// Errors: a sentence that says whose bundle it is and what is wrong with it.
pub fn read(document: &Value) -> Option<Result<Foreign, String>> {
    let format = document.get("format").and_then(Value::as_str);
    if let Some(version) = format.and_then(|format| format.strip_prefix(TINFOIL)) {
        let read = match version {
            TINFOIL_VERSION => tinfoil(document),
            other => Err(format!("expected version {TINFOIL_VERSION}; {} given", foreign(other))),
        };
        return Some(read.map_err(|what| format!("this is a bundle of Tinfoil, not of claviger: {what}")));
    }
    let phala = document.get("intel_quote").is_some() && document.get("nvidia_payload").is_some();
    let said = |what| format!("this is a bundle of Phala, not of claviger: {what}");
    phala.then(|| self::phala(document).map_err(said))
}

fn tinfoil(document: &Value) -> Result<Foreign, String> {
    let stated = |name: &str| bytes::<32>(&document["report_data"], name);
    let (tls, hpke, nonce) = (stated("tls_key_fp")?, stated("hpke_key")?, stated("nonce")?);
    let gpu_hash = stated("gpu_evidence_hash")?;
    match text(&document["cpu"], "platform")? {
        "tdx" => {}
        other => return Err(format!("expected the platform `tdx`; {} given", foreign(other))),
    }
    // The hash is over the member's own text; written out again it is that text where it was compact and sorted.
    let same = crypto::sha256(&[document["gpu"].to_string().as_bytes()]).bytes() == &gpu_hash;
    let mut report_data = [0; 64];
    report_data[..32].copy_from_slice(crypto::sha256(&[&tls, &hpke, &nonce, &gpu_hash]).bytes());
    Ok(Foreign {
        scheme: Scheme::Tinfoil,
        quote: base64(text(&document["cpu"], "report")?)?,
        gpus: list::devices(&document["gpu"]["evidences"])?,
        nonce,
        report_data: same.then_some(report_data),
    })
}

fn phala(document: &Value) -> Result<Foreign, String> {
    let quote = text(document, "intel_quote")?;
    let quote = hex::decode(quote.trim_start_matches("0x")).or_else(|_| base64(quote))?;
    // A document inside of the document.
    let payload: Value = serde_json::from_str(text(document, "nvidia_payload")?)
        .map_err(|_| "expected JSON in `nvidia_payload`".to_string())?;
    let nonce = bytes::<32>(&payload, "nonce")?;
    let address = bytes::<20>(document, "signing_address").ok();
    let report_data = address.map(|address| {
        let mut data = [0; 64];
        data[..20].copy_from_slice(&address);
        data[32..].copy_from_slice(&nonce);
        data
    });
    Ok(Foreign { scheme: Scheme::Phala, quote, gpus: list::devices(&payload)?, nonce, report_data })
}

fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, String> {
    object.get(name).and_then(Value::as_str).ok_or_else(|| format!("expected a text in `{name}`"))
}

fn bytes<const N: usize>(object: &Value, name: &str) -> Result<[u8; N], String> {
    let digits = text(object, name)?.to_ascii_lowercase();
    crate::wire::text::from_lower_hex(digits.strip_prefix("0x").unwrap_or(&digits))
        .map_err(|what| format!("`{name}`: {what}"))
}

fn base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|_| "expected base64 or hex".to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_bundle_of_another_project_is_not_taken_for_one() {
        for document in [json!({}), json!([]), json!({ "format": "other" }), json!({ "intel_quote": "00" })] {
            assert!(read(&document).is_none(), "{document}");
        }
    }

    #[test]
    fn a_bundle_that_is_recognised_and_wrong_is_named_with_its_project() {
        let said = |document: Value| read(&document).unwrap().map(|_| ()).unwrap_err();
        let next = said(json!({ "format": "https://tinfoil.sh/predicate/attestation/v4" }));
        assert_eq!(next, "this is a bundle of Tinfoil, not of claviger: expected version v3; `v4` given");
        let empty = said(json!({ "intel_quote": "00", "nvidia_payload": "{}" }));
        assert_eq!(empty, "this is a bundle of Phala, not of claviger: expected a text in `nonce`");
    }
}
