//! NVIDIA's reference integrity manifests (RIM): the reference values of one driver, VBIOS or switch BIOS.

mod canonical;
mod token;
mod walk;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use self::walk::{Expected, Sink, Walk};
use super::certificate::Certificate;
use super::error::Error;
use crate::wire::crypto::{self, P384_SIGNATURE_LEN};
use crate::wire::{Digest, limits};

/// Resources of a RIM, one for each index from 0.
pub const RESOURCES: usize = 64;
/// Certificates in a RIM: signer, two intermediates, root.
pub const CERTIFICATES: usize = 4;
/// Alternatives of one reference value. Those seen are 1 to 4.
pub const ALTERNATIVES_MAX: usize = 16;

/// What a RIM says, as signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The chip: `GH100`, `GB100`, `LS10`. Equal to the name of the tag.
    pub product: String,
    /// `GPU` or `SWITCH`.
    pub edition: String,
    /// The version of the driver, VBIOS or switch BIOS.
    pub colloquial_version: String,
    /// IANA enterprise number of the platform's maker.
    pub platform_manufacturer_id: String,
    /// IANA enterprise number of the firmware's maker.
    pub firmware_manufacturer_id: String,
    /// The id of the tag; changes with each issue.
    pub tag_id: String,
    /// The version of the tag; 0 in every document seen, so it orders nothing.
    pub tag_version: String,
    /// The alternatives of each active index. All zero is a value like any other.
    pub active: BTreeMap<u8, Vec<Digest<48>>>,
}

/// A parsed RIM: its statement and what its signature is about.
///
/// The statement is taken from the tokens that were hashed, in the same pass: there is no second reading of the tree.
#[derive(Clone, Debug)]
pub struct Rim {
    statement: Statement,
    payload: Vec<u8>,
    payload_digest: Digest<48>,
    digest_value: Digest<48>,
    signed_info: Vec<u8>,
    signature: [u8; P384_SIGNATURE_LEN],
    certificates: [Certificate; CERTIFICATES],
}

impl Rim {
    /// Parses a RIM document.
    ///
    /// Shape: the one dialect that every published document has, at most `RIM_LEN_MAX` bytes: `SoftwareIdentity` with
    /// `ns0:Entity`, `ns0:Meta`, `ns0:Payload` (64 resources) and `ds:Signature` (one reference to the whole document,
    /// four certificates), attributes in fixed order, at most two line feeds after the root.
    ///
    /// Errors: `RimLength`, `RimSyntax` with the offset, and those of `Certificate::from_der`.
    ///
    /// Source: ISO/IEC 19770-2:2015; TCG Reference Integrity Manifest Information Model; W3C XML Signature 1.1; the
    /// documents of rim.attestation.nvidia.com.
    pub fn parse(document: &[u8]) -> Result<Self, Error> {
        if document.len() > limits::RIM_LEN_MAX {
            return Err(Error::RimLength { len: document.len() });
        }
        let mut walk = Walk::new(document)?;
        let root = walk.start("SoftwareIdentity", ROOT, false)?;
        walk.gap()?;
        walk.start("ns0:Entity", &[any("name"), any("role")], true)?;
        walk.gap()?;
        let meta = walk.start("ns0:Meta", META, true)?;
        let product = walk.value(&meta, "product")?;
        if walk.value(&root, "name")? != product {
            return Err(walk.wrong("the name of the tag to be its product"));
        }
        walk.gap()?;
        let statement = Statement {
            active: payload(&mut walk)?,
            product: product.to_string(),
            edition: walk.value(&meta, "edition")?.to_string(),
            colloquial_version: walk.value(&meta, "colloquialVersion")?.to_string(),
            platform_manufacturer_id: walk.value(&meta, "ns1:PlatformManufacturerId")?.to_string(),
            firmware_manufacturer_id: walk.value(&meta, "ns1:FirmwareManufacturerId")?.to_string(),
            tag_id: walk.value(&root, "tagId")?.to_string(),
            tag_version: walk.value(&root, "tagVersion")?.to_string(),
        };
        walk.gap()?;
        let signature = signature(&mut walk)?;
        // No gap here: the line feed before the signature is the text node that stays in the signed document.
        walk.end("SoftwareIdentity")?;
        walk.tail()?;
        Ok(Self {
            statement,
            payload_digest: crypto::sha384(&[&walk.payload]),
            payload: walk.payload,
            digest_value: signature.digest_value,
            signed_info: walk.signed_info,
            signature: signature.value,
            certificates: signature.certificates,
        })
    }

    /// Returns what the document says.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Returns the digest that the signature speaks of. It identifies the document: a hash of the file does not, since
    /// line breaks in the certificates and after the root are not signed.
    pub fn digest_value(&self) -> Digest<48> {
        self.digest_value
    }

    /// Returns the digest of `payload`, which a genuine document gives as its digest value.
    pub fn payload_digest(&self) -> Digest<48> {
        self.payload_digest
    }

    /// Returns the canonical bytes of the document without its signature.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the canonical bytes of `ds:SignedInfo`, which the signer signed.
    pub fn signed_info(&self) -> &[u8] {
        &self.signed_info
    }

    /// Returns the signature: r then s, 48 bytes each, big-endian.
    pub fn signature(&self) -> &[u8; P384_SIGNATURE_LEN] {
        &self.signature
    }

    /// Returns signer, two intermediates, root.
    pub fn certificates(&self) -> &[Certificate; CERTIFICATES] {
        &self.certificates
    }
}

const fn any(name: &'static str) -> Expected {
    (name, None)
}

const fn only(name: &'static str, value: &'static str) -> Expected {
    (name, Some(value))
}

/// A tag that is a patch, a supplement or an installer's would mean something else.
const ROOT: &[Expected] = &[
    any("xmlns"),
    any("xmlns:ns0"),
    any("xmlns:ns2"),
    only("corpus", "false"),
    any("name"),
    only("patch", "false"),
    only("supplemental", "false"),
    any("tagId"),
    any("version"),
    any("tagVersion"),
];

const META: &[Expected] = &[
    any("xmlns:ns1"),
    any("colloquialVersion"),
    any("edition"),
    any("product"),
    any("revision"),
    only("PayloadType", "direct"),
    only("ns1:BindingSpec", "RIMIM"),
    only("ns1:BindingSpecVersion", "1.01"),
    any("ns1:PlatformManufacturerId"),
    any("ns1:PlatformManufacturerStr"),
    any("ns1:PlatformModel"),
    any("ns1:FirmwareManufacturer"),
    any("ns1:FirmwareManufacturerId"),
];

/// Prefixes declared on the root and on `ds:Signature`, which the canonical form of `ds:SignedInfo` repeats.
const IN_SCOPE: &[&str] = &["", "ds", "ns0", "ns2"];

const C14N11: &str = "http://www.w3.org/2006/12/xml-c14n11";
const ECDSA_SHA384: &str = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384";
const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
const SHA384: &str = "http://www.w3.org/2001/04/xmldsig-more#sha384";

/// Takes the payload: 64 resources.
fn payload(walk: &mut Walk<'_>) -> Result<BTreeMap<u8, Vec<Digest<48>>>, Error> {
    walk.start("ns0:Payload", &[any("xmlns:SHA384")], false)?;
    let mut seen = [false; RESOURCES];
    let mut active = BTreeMap::new();
    for _ in 0..RESOURCES {
        walk.gap()?;
        let resource = resource(walk)?;
        match seen.get_mut(usize::from(resource.index)) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(walk.wrong("each index from 0 to 63 once")),
        }
        if resource.active {
            active.insert(resource.index, resource.alternatives);
        }
    }
    walk.gap()?;
    walk.end("ns0:Payload")?;
    // A document without an active index would match every device.
    if active.is_empty() { Err(walk.wrong("an active index")) } else { Ok(active) }
}

struct Resource {
    index: u8,
    active: bool,
    alternatives: Vec<Digest<48>>,
}

/// Takes one resource.
fn resource(walk: &mut Walk<'_>) -> Result<Resource, Error> {
    let tag = walk.tag("ns0:Resource", true, &[])?;
    let count = decimal(walk.value(&tag, "alternatives")?).map(usize::from);
    let count = count
        .filter(|count| (1..=ALTERNATIVES_MAX).contains(count))
        .ok_or_else(|| walk.wrong(&format!("1 to {ALTERNATIVES_MAX} alternatives")))?;
    let hashes: Vec<String> = (0..count).map(|at| format!("ns2:Hash{at}")).collect();
    let before = ["type", "index", "active", "alternatives"];
    let expected = before.into_iter().chain(hashes.iter().map(String::as_str)).chain(["name", "size"]);
    if !tag.attributes.iter().map(|(name, _)| *name).eq(expected) {
        return Err(walk.wrong(&format!("the attributes of a resource with {count} alternatives, in order")));
    }
    if walk.value(&tag, "type")? != "Measurement" || walk.value(&tag, "size")? != "48" {
        return Err(walk.wrong("a resource of type Measurement and size 48"));
    }
    let alternatives = hashes.iter().map(|name| {
        let mut digest = [0; 48];
        let text = walk.value(&tag, name)?;
        hex::decode_to_slice(text, &mut digest).map_err(|_| walk.wrong("96 hex digits"))?;
        Ok(Digest::new(digest))
    });
    Ok(Resource {
        alternatives: alternatives.collect::<Result<_, Error>>()?,
        index: decimal(walk.value(&tag, "index")?).ok_or_else(|| walk.wrong("an index from 0 to 63"))?,
        active: match walk.value(&tag, "active")? {
            "True" => true,
            "False" => false,
            _ => return Err(walk.wrong("active to be True or False")),
        },
    })
}

struct Signature {
    digest_value: Digest<48>,
    value: [u8; P384_SIGNATURE_LEN],
    certificates: [Certificate; CERTIFICATES],
}

/// Takes the signature; its `ds:SignedInfo` goes to a canonical form of its own, the rest of it to none.
fn signature(walk: &mut Walk<'_>) -> Result<Signature, Error> {
    walk.sink = Sink::Nowhere;
    walk.start("ds:Signature", &[any("xmlns:ds")], false)?;
    walk.sink = Sink::SignedInfo;
    let algorithm = |uri| [only("Algorithm", uri)];
    walk.start_inheriting("ds:SignedInfo", &[], false, IN_SCOPE)?;
    walk.start("ds:CanonicalizationMethod", &algorithm(C14N11), true)?;
    walk.start("ds:SignatureMethod", &algorithm(ECDSA_SHA384), true)?;
    // The empty URI is the whole document; an id would let the payload move elsewhere (signature wrapping).
    walk.start("ds:Reference", &[only("URI", "")], false)?;
    walk.start("ds:Transforms", &[], false)?;
    walk.start("ds:Transform", &algorithm(ENVELOPED), true)?;
    walk.start("ds:Transform", &algorithm(C14N11), true)?;
    walk.end("ds:Transforms")?;
    walk.start("ds:DigestMethod", &algorithm(SHA384), true)?;
    let digest_value = Digest::new(base64_of(walk, "ds:DigestValue")?);
    walk.end("ds:Reference")?;
    walk.end("ds:SignedInfo")?;
    walk.sink = Sink::Nowhere;
    let value = base64_of(walk, "ds:SignatureValue")?;
    walk.start("ds:KeyInfo", &[], false)?;
    walk.start("ds:X509Data", &[], false)?;
    let mut certificates = Vec::with_capacity(CERTIFICATES);
    for _ in 0..CERTIFICATES {
        if !walk.at_start("ds:X509Certificate") {
            return Err(walk.wrong("four certificates"));
        }
        certificates.push(certificate(walk)?);
    }
    let certificates = certificates.try_into().map_err(|_| walk.wrong("four certificates"))?;
    walk.end("ds:X509Data")?;
    walk.end("ds:KeyInfo")?;
    walk.end("ds:Signature")?;
    walk.sink = Sink::Payload;
    Ok(Signature { digest_value, value, certificates })
}

/// Takes an element that holds exactly `N` bytes as base64 in one line.
fn base64_of<const N: usize>(walk: &mut Walk<'_>, name: &str) -> Result<[u8; N], Error> {
    walk.start(name, &[], false)?;
    let text = walk.text()?.unwrap_or_default();
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| walk.wrong(&format!("{N} bytes as base64 in {name}")))?;
    walk.end(name)?;
    Ok(bytes)
}

/// Takes a certificate: base64 broken by line feeds.
fn certificate(walk: &mut Walk<'_>) -> Result<Certificate, Error> {
    walk.start("ds:X509Certificate", &[], false)?;
    let joined: String = walk.text()?.unwrap_or_default().split('\n').collect();
    let der = STANDARD.decode(joined).map_err(|_| walk.wrong("a certificate as base64"))?;
    walk.end("ds:X509Certificate")?;
    Certificate::from_der(&der)
}

/// Reads a decimal number as it is written in one way only.
fn decimal(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number: &u8| number.to_string() == text)
}
