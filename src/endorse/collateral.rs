//! A set of Intel's collateral: everything that the quotes of one FMSPC are judged by, as one document.

use std::borrow::Cow;

use super::certificate::Certificate;
use super::crl::Crl;
use super::error::Error;
use super::json::{Json, NotJson};
use super::pem;
use super::qe_identity::QeIdentity;
use super::tcb_info::TcbInfo;
use crate::wire::crypto::P256_SIGNATURE_LEN;
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, limits};

/// A text that Intel signed, with what came beside it.
#[derive(Clone, Debug)]
pub struct SignedText {
    /// The very bytes that are signed; never written out again from what was parsed.
    pub text: Vec<u8>,
    /// r then s.
    pub signature: [u8; P256_SIGNATURE_LEN],
    pub chain: IssuerChain,
}

/// The two certificates of an issuer chain.
#[derive(Clone, Debug)]
pub struct IssuerChain {
    pub signer: Certificate,
    pub root: Certificate,
}

/// A parsed set. Nobody has checked a signature yet.
#[derive(Clone, Debug)]
pub struct Collateral {
    digest: Digest<32>,
    pub tcb_info: TcbInfo,
    pub tcb_info_signed: SignedText,
    pub qe_identity: QeIdentity,
    pub qe_identity_signed: SignedText,
    pub pck_crl: Crl,
    pub pck_crl_chain: IssuerChain,
    pub root_crl: Crl,
}

impl Collateral {
    /// Parses a set.
    ///
    /// Shape: a JSON object of at most `COLLATERAL_LEN_MAX` bytes with nine texts: `tcb_info` and `qe_identity` as
    /// Intel signed them, `tcb_info_signature` and `qe_identity_signature` (64 bytes in hex), `pck_crl` and
    /// `root_ca_crl` (DER in hex, or PEM, as Intel's services and caches give them), and `tcb_info_issuer_chain`,
    /// `qe_identity_issuer_chain` and `pck_crl_issuer_chain` (PEM of two certificates, root last). Each stands once;
    /// further members are passed over.
    ///
    /// Errors: `Collateral` naming the member; those of `TcbInfo::parse` and `QeIdentity::parse`.
    ///
    /// Source: the form in which verifiers exchange it (dcap-qvl's QuoteCollateralV3, after Intel's
    /// sgx_ql_qve_collateral_t).
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        if json.len() > limits::COLLATERAL_LEN_MAX {
            let what = format!("at most {} bytes; {} given", limits::COLLATERAL_LEN_MAX, json.len());
            return Err(Error::Collateral { what });
        }
        Members::read(json)?.parse()
    }

    /// Tells whether bytes begin like such a document.
    pub fn is_json(bytes: &[u8]) -> bool {
        bytes.trim_ascii_start().starts_with(b"{")
    }

    /// Returns the digest over all nine members, by which the set is known.
    pub fn digest(&self) -> &Digest<32> {
        &self.digest
    }
}

/// The nine texts, in the order of `NAMES`.
struct Members<'a>([Cow<'a, str>; 9]);

const NAMES: [&str; 9] = [
    "tcb_info",
    "tcb_info_signature",
    "tcb_info_issuer_chain",
    "qe_identity",
    "qe_identity_signature",
    "qe_identity_issuer_chain",
    "pck_crl",
    "pck_crl_issuer_chain",
    "root_ca_crl",
];

impl<'a> Members<'a> {
    fn read(json: &'a [u8]) -> Result<Self, Error> {
        let found = Self::found(json).map_err(|NotJson { offset, expected }| Error::Collateral {
            what: format!("{expected} at offset {offset}"),
        })?;
        let mut members = [const { Cow::Borrowed("") }; 9];
        for ((member, found), name) in members.iter_mut().zip(found).zip(NAMES) {
            *member = found.ok_or_else(|| Error::Collateral { what: format!("the member `{name}`") })?;
        }
        Ok(Self(members))
    }

    fn found(json: &'a [u8]) -> Result<[Option<Cow<'a, str>>; 9], NotJson> {
        let mut reader = Json::new(json)?;
        let mut found: [Option<Cow<'a, str>>; 9] = [const { None }; 9];
        reader.object::<NotJson>(|name, reader| {
            match NAMES.iter().position(|known| *known == name).and_then(|at| found.get_mut(at)) {
                Some(place) => *place = Some(reader.text(limits::COLLATERAL_LEN_MAX)?),
                None => drop(reader.skip()?),
            }
            Ok(())
        })?;
        reader.finish()?;
        Ok(found)
    }

    fn parse(&self) -> Result<Collateral, Error> {
        let [
            tcb_info,
            tcb_signature,
            tcb_chain,
            qe,
            qe_signature,
            qe_chain,
            pck_crl,
            pck_crl_chain,
            root_crl,
        ] = &self.0;
        let mut digest = Transcript::new("claviger/v1/collateral");
        for member in &self.0 {
            digest = digest.field(member.as_bytes());
        }
        let signed = |text: &str, signature: (&'static str, &str), chain: (&'static str, &str)| {
            let (name, hex) = signature;
            let mut signature = [0; P256_SIGNATURE_LEN];
            hex::decode_to_slice(hex, &mut signature).map_err(|_| wrong(name, "64 bytes in hex"))?;
            let text = text.as_bytes().to_vec();
            Ok::<_, Error>(SignedText { text, signature, chain: issuer_chain(chain.0, chain.1)? })
        };
        alone("tcb_info", tcb_info, "tcbInfo")?;
        alone("qe_identity", qe, "enclaveIdentity")?;
        Ok(Collateral {
            digest: digest.sha256(),
            tcb_info: TcbInfo::parse(tcb_info.as_bytes())?,
            tcb_info_signed: signed(
                tcb_info,
                ("tcb_info_signature", tcb_signature),
                ("tcb_info_issuer_chain", tcb_chain),
            )?,
            qe_identity: QeIdentity::parse(qe.as_bytes())?,
            qe_identity_signed: signed(
                qe,
                ("qe_identity_signature", qe_signature),
                ("qe_identity_issuer_chain", qe_chain),
            )?,
            pck_crl: list("pck_crl", pck_crl)?,
            pck_crl_chain: issuer_chain("pck_crl_issuer_chain", pck_crl_chain)?,
            root_crl: list("root_ca_crl", root_crl)?,
        })
    }
}

fn wrong(member: &'static str, what: impl std::fmt::Display) -> Error {
    Error::Collateral { what: format!("{what} in {member}") }
}

/// Intel's answers hold the signed text beside its signature: whoever takes one as it came gets told so.
fn alone(member: &'static str, text: &str, wrapper: &'static str) -> Result<(), Error> {
    let after_brace = text.trim_ascii_start().strip_prefix('{').map(str::trim_ascii_start);
    let named = after_brace.and_then(|text| text.strip_prefix('"')?.strip_prefix(wrapper));
    match named.is_some_and(|rest| rest.starts_with('"')) {
        true => Err(wrong(member, format_args!("the text inside of `{wrapper}` alone, without signature,"))),
        false => Ok(()),
    }
}

fn inside(member: &'static str, error: &Error) -> Error {
    Error::Collateral { what: format!("a well-formed {member}: {error}") }
}

fn list(member: &'static str, text: &str) -> Result<Crl, Error> {
    if text.len() > limits::CRL_LEN_MAX * 2 {
        return Err(wrong(member, format_args!("at most {} bytes", limits::CRL_LEN_MAX)));
    }
    let parsed = match pem::is_pem(text.as_bytes()) {
        true => Crl::from_bytes(text.as_bytes()),
        false => {
            let der = hex::decode(text).map_err(|_| wrong(member, "a list as DER in hex or PEM"))?;
            Crl::from_der(&der)
        }
    };
    parsed.map_err(|error| inside(member, &error))
}

fn issuer_chain(member: &'static str, text: &str) -> Result<IssuerChain, Error> {
    let list = Certificate::list_from_pem(text.as_bytes(), limits::ISSUER_CHAIN_LEN_MAX)
        .map_err(|error| inside(member, &error))?;
    let [signer, root] = <[Certificate; 2]>::try_from(list)
        .map_err(|list| wrong(member, format_args!("two certificates, not {},", list.len())))?;
    Ok(IssuerChain { signer, root })
}
