//! NVIDIA's reference integrity manifests (RIM): the reference values of one driver, VBIOS or switch BIOS.

mod canonical;
mod token;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

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
/// Copies share what was parsed.
#[derive(Clone, Debug)]
pub struct Rim(Arc<Content>);

#[derive(Debug)]
struct Content {
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
        Ok(Self(Arc::new(Content {
            statement,
            payload_digest: crypto::sha384(&[&walk.payload]),
            payload: walk.payload,
            digest_value: signature.digest_value,
            signed_info: walk.signed_info,
            signature: signature.value,
            certificates: signature.certificates,
        })))
    }

    /// Returns what the document says.
    pub fn statement(&self) -> &Statement {
        &self.0.statement
    }

    /// Returns the digest that the signature speaks of. It identifies the content of the document, which keeps it when
    /// NVIDIA signs anew; a hash of the file identifies nothing, since line breaks in the certificates and after the
    /// root are not signed.
    pub fn digest_value(&self) -> Digest<48> {
        self.0.digest_value
    }

    /// Returns the digest of `payload`, which a genuine document gives as its digest value.
    pub fn payload_digest(&self) -> Digest<48> {
        self.0.payload_digest
    }

    /// Returns the canonical bytes of the document without its signature.
    pub fn payload(&self) -> &[u8] {
        &self.0.payload
    }

    /// Returns the canonical bytes of `ds:SignedInfo`, which the signer signed.
    pub fn signed_info(&self) -> &[u8] {
        &self.0.signed_info
    }

    /// Returns the signature: r then s, 48 bytes each, big-endian.
    pub fn signature(&self) -> &[u8; P384_SIGNATURE_LEN] {
        &self.0.signature
    }

    /// Returns signer, two intermediates, root.
    pub fn certificates(&self) -> &[Certificate; CERTIFICATES] {
        &self.0.certificates
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
    Certificate::from_der(&der)?.without_p256()
}

/// Reads a decimal number as it is written in one way only.
fn decimal(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number: &u8| number.to_string() == text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::Code;

    const ROOT_DER: &[u8] = include_bytes!("../../certs/nvidia-corim-signing-root-ca.der");

    /// A document of the right shape that nobody signed: every certificate is the pinned root.
    pub(crate) fn document(product: &str, edition: &str, version: &str) -> String {
        let hash = "ab".repeat(48);
        let resources: String = (0..64)
            .map(|index| {
                let active = if index == 5 { "True" } else { "False" };
                let (count, second) = match index {
                    5 => (2, format!(" ns2:Hash1=\"{}\"", "00".repeat(48))),
                    _ => (1, String::new()),
                };
                format!(
                    "\n        <ns0:Resource type=\"Measurement\" index=\"{index}\" active=\"{active}\" \
                     alternatives=\"{count}\" ns2:Hash0=\"{hash}\"{second} \
                     name=\"Measurement_{index}\" size=\"48\"/>"
                )
            })
            .collect();
        let certificate: String = STANDARD
            .encode(ROOT_DER)
            .as_bytes()
            .chunks(64)
            .map(|line| format!("{}\n", std::str::from_utf8(line).unwrap()))
            .collect();
        let certificates = format!("<ds:X509Certificate>{certificate}</ds:X509Certificate>").repeat(4);
        let swid = namespace("ns0");
        let sha384 = namespace("ns2");
        let tcg = namespace("ns1");
        let ds = namespace("ds");
        let digest = STANDARD.encode([7; 48]);
        let signature = STANDARD.encode([8; 96]);
        format!(
            "<SoftwareIdentity xmlns=\"{swid}\" xmlns:ns0=\"{swid}\" xmlns:ns2=\"{sha384}\" corpus=\"false\" \
             name=\"{product}\" patch=\"false\" supplemental=\"false\" tagId=\"id\" version=\"1.0\" \
             tagVersion=\"0\">\n    \
             <ns0:Entity name=\"NVIDIA Corporation\" role=\"softwareCreator tagCreator\"/>\n    \
             <ns0:Meta xmlns:ns1=\"{tcg}\" colloquialVersion=\"{version}\" edition=\"{edition}\" product=\"{product}\" \
             revision=\"r1\" PayloadType=\"direct\" ns1:BindingSpec=\"RIMIM\" ns1:BindingSpecVersion=\"1.01\" \
             ns1:PlatformManufacturerId=\"5703\" ns1:PlatformManufacturerStr=\"NVIDIA Corporation\" \
             ns1:PlatformModel=\"{product}\" ns1:FirmwareManufacturer=\"NVIDIA Corporation\" \
             ns1:FirmwareManufacturerId=\"5703\"/>\n    \
             <ns0:Payload xmlns:SHA384=\"{sha384}\">{resources}\n    </ns0:Payload>\n\
             <ds:Signature xmlns:ds=\"{ds}\"><ds:SignedInfo><ds:CanonicalizationMethod Algorithm=\"{C14N11}\"/>\
             <ds:SignatureMethod Algorithm=\"{ECDSA_SHA384}\"/><ds:Reference URI=\"\"><ds:Transforms>\
             <ds:Transform Algorithm=\"{ENVELOPED}\"/><ds:Transform Algorithm=\"{C14N11}\"/></ds:Transforms>\
             <ds:DigestMethod Algorithm=\"{SHA384}\"/><ds:DigestValue>{digest}</ds:DigestValue></ds:Reference>\
             </ds:SignedInfo><ds:SignatureValue>{signature}</ds:SignatureValue><ds:KeyInfo><ds:X509Data>{certificates}\
             </ds:X509Data></ds:KeyInfo></ds:Signature></SoftwareIdentity>\n"
        )
    }

    fn namespace(prefix: &str) -> &'static str {
        canonical::namespace(prefix).unwrap()
    }

    fn sample() -> String {
        document("GH100", "GPU", "550.90.07")
    }

    #[test]
    fn takes_the_statement_and_every_alternative() {
        let rim = Rim::parse(sample().as_bytes()).unwrap();
        let statement = rim.statement();
        assert_eq!((statement.product.as_str(), statement.edition.as_str()), ("GH100", "GPU"));
        assert_eq!(statement.colloquial_version, "550.90.07");
        assert_eq!((statement.tag_id.as_str(), statement.tag_version.as_str()), ("id", "0"));
        let alternatives = vec![Digest::new([0xab; 48]), Digest::new([0; 48])];
        assert_eq!(statement.active, BTreeMap::from([(5, alternatives)]));
        assert_eq!(rim.digest_value(), Digest::new([7; 48]));
        assert_eq!(rim.signature(), &[8; 96]);
        assert!(rim.certificates().iter().all(|certificate| certificate.der() == ROOT_DER));
    }

    #[test]
    fn canonical_bytes_are_sorted_expanded_and_without_the_signature() {
        let rim = Rim::parse(sample().as_bytes()).unwrap();
        let payload = std::str::from_utf8(rim.payload()).unwrap();
        assert!(payload.ends_with("\n    </ns0:Payload>\n</SoftwareIdentity>"));
        assert!(!payload.contains("ds:"));
        let hash = "ab".repeat(48);
        let resource = format!(
            "\n        <ns0:Resource active=\"False\" alternatives=\"1\" index=\"0\" name=\"Measurement_0\" \
             size=\"48\" \
             type=\"Measurement\" ns2:Hash0=\"{hash}\"></ns0:Resource>"
        );
        assert!(payload.contains(&resource));
        assert_eq!(rim.payload_digest(), crypto::sha384(&[rim.payload()]));
        let signed_info = std::str::from_utf8(rim.signed_info()).unwrap();
        assert!(signed_info.starts_with("<ds:SignedInfo xmlns=\"http://standards.iso.org/"));
        assert!(signed_info.ends_with("</ds:DigestValue></ds:Reference></ds:SignedInfo>"));
    }

    /// Makes one change and demands that it is refused as a malformed document.
    fn refuses(what: &str, from: &str, to: &str) {
        let before = sample();
        let after = before.replacen(from, to, 1);
        assert_ne!(before, after, "{what}: nothing was changed");
        let code = Rim::parse(after.as_bytes()).err().map(|error| error.code());
        let expected = [Code::RimMalformed, Code::CertificateMalformed].map(Some);
        assert!(expected.contains(&code), "{what}: {code:?}");
    }

    #[test]
    fn refuses_another_signature_or_reference() {
        let signature = {
            let text = sample();
            let from = text.find("<ds:Signature xmlns").unwrap();
            let to = text.find("</SoftwareIdentity>").unwrap();
            text[from..to].to_string()
        };
        refuses("second signature", &signature, &signature.repeat(2));
        refuses("no signature", &signature, "");
        refuses("signature before the payload", "<ns0:Payload", &format!("{signature}<ns0:Payload"));
        refuses(
            "signature after the root",
            "</SoftwareIdentity>",
            &format!("</SoftwareIdentity>{signature}"),
        );
        let reference = {
            let from = signature.find("<ds:Reference").unwrap();
            let to = signature.find("</ds:SignedInfo>").unwrap();
            signature[from..to].to_string()
        };
        refuses("second reference", &reference, &reference.repeat(2));
        refuses("no reference", &reference, "");
        refuses("reference by id", "URI=\"\"", "URI=\"#payload\"");
        refuses("reference without a URI", "<ds:Reference URI=\"\">", "<ds:Reference>");
        refuses("second SignedInfo", "</ds:SignedInfo>", "</ds:SignedInfo><ds:SignedInfo></ds:SignedInfo>");
        refuses("object in the signature", "</ds:KeyInfo>", "</ds:KeyInfo><ds:Object></ds:Object>");
        refuses("signature not last", "</ds:Signature>", "</ds:Signature><ns0:Link/>");
        refuses("text after the signature", "</ds:Signature>", "</ds:Signature>\n");
    }

    #[test]
    fn refuses_every_other_algorithm() {
        refuses("canonical form", C14N11, "http://www.w3.org/2001/10/xml-exc-c14n#");
        refuses("canonical form with comments", C14N11, &format!("{C14N11}#WithComments"));
        refuses("signature method", "#ecdsa-sha384", "#ecdsa-sha256");
        refuses("HMAC", ECDSA_SHA384, "http://www.w3.org/2001/04/xmldsig-more#hmac-sha384");
        refuses(
            "digest method",
            "<ds:DigestMethod Algorithm=\"http://www.w3.org/2001/04/xmldsig-more#sha384",
            "<ds:DigestMethod Algorithm=\"http://www.w3.org/2000/09/xmldsig#sha1",
        );
        refuses("XPath transform", ENVELOPED, "http://www.w3.org/TR/1999/REC-xpath-19991116");
        let second = format!("<ds:Transform Algorithm=\"{C14N11}\"/>");
        refuses("one transform", &second, "");
        refuses("three transforms", &second, &second.repeat(2));
    }

    #[test]
    fn refuses_what_is_not_the_dialect() {
        refuses("comment in a hash", "abab\"", "ab<!-- -->ab\"");
        refuses("comment between resources", "\n        <ns0:Resource", "<!-- x -->\n        <ns0:Resource");
        refuses("entity", "NVIDIA Corporation", "NVIDIA &amp; Corporation");
        refuses("character reference", "5703", "5&#55;03");
        refuses("DOCTYPE", "<SoftwareIdentity", "<!DOCTYPE x []><SoftwareIdentity");
        refuses("declaration", "<SoftwareIdentity", "<?xml version=\"1.0\"?>\n<SoftwareIdentity");
        refuses("processing instruction", "</ns0:Payload>", "<?x?></ns0:Payload>");
        refuses("CDATA", "</ns0:Payload>", "<![CDATA[]]></ns0:Payload>");
        refuses("byte order mark", "<SoftwareIdentity", "\u{feff}<SoftwareIdentity");
        refuses("blank line before the root", "<SoftwareIdentity", "\n<SoftwareIdentity");
        refuses("carriage return", "\n    <ns0:Entity", "\r\n    <ns0:Entity");
        refuses("five blanks", "\n    <ns0:Meta", "\n     <ns0:Meta");
        refuses("two line feeds between elements", "\n    <ns0:Meta", "\n\n    <ns0:Meta");
        refuses("text in the payload", "</ns0:Payload>", "x</ns0:Payload>");
        refuses("blank in a tag", "<ns0:Entity name", "<ns0:Entity  name");
        refuses("single quotes", "role=\"softwareCreator tagCreator\"", "role='x'");
        refuses("open and end tag for an empty element", "tagCreator\"/>", "tagCreator\"></ns0:Entity>");
        refuses("other order", "edition=\"GPU\" product=\"GH100\"", "product=\"GH100\" edition=\"GPU\"");
        refuses("surplus attribute", " revision=", " x=\"\" revision=");
        refuses("missing attribute", " revision=\"r1\"", "");
        refuses("attribute twice", " edition=\"GPU\"", " edition=\"GPU\" edition=\"GPU\"");
        refuses("three line feeds at the end", "</SoftwareIdentity>\n", "</SoftwareIdentity>\n\n\n");
        refuses("blank at the end", "</SoftwareIdentity>\n", "</SoftwareIdentity> \n");
        refuses("second root", "</SoftwareIdentity>\n", "</SoftwareIdentity><SoftwareIdentity/>");
    }

    #[test]
    fn takes_no_line_feed_and_two_after_the_root() {
        for tail in ["", "\n", "\n\n"] {
            let document = sample().replace("</SoftwareIdentity>\n", &format!("</SoftwareIdentity>{tail}"));
            assert_eq!(
                Rim::parse(document.as_bytes()).unwrap().payload_digest(),
                Rim::parse(sample().as_bytes()).unwrap().payload_digest()
            );
        }
    }

    #[test]
    fn refuses_other_namespaces_and_elements() {
        refuses("default namespace", "2015/schema.xsd\" xmlns:ns0", "2009/schema.xsd\" xmlns:ns0");
        refuses("prefix of the payload", "xmlns:ns0=\"http://standards", "xmlns:ns0=\"http://elsewhere");
        refuses("namespace of hashes", "xmlenc#sha384\" corpus", "xmlenc#sha256\" corpus");
        refuses(
            "namespace of the signature",
            "2000/09/xmldsig#\"><ds:SignedInfo",
            "2000/09/xmldsig2#\"><ds:SignedInfo",
        );
        refuses("declaration added", "<ns0:Entity name", "<ns0:Entity xmlns:ns2=\"x\" name");
        refuses("another prefix", "<ns0:Entity", "<ns2:Entity");
        refuses("resource without a prefix", "<ns0:Resource", "<Resource");
        refuses("payload under another element", "<ns0:Payload", "<ns0:Evidence><ns0:Payload");
        refuses("second payload", "</ns0:Payload>", "</ns0:Payload><ns0:Payload></ns0:Payload>");
        refuses("resource after the payload", "</ns0:Payload>", "</ns0:Payload><ns0:Resource/>");
        refuses("no Meta", "<ns0:Meta", "<ns0:Mete");
        refuses("name is not the product", "name=\"GH100\"", "name=\"GB100\"");
        refuses("supplement", "supplemental=\"false\"", "supplemental=\"true\"");
        refuses("patch", "patch=\"false\"", "patch=\"true\"");
        refuses("indirect payload", "\"direct\"", "\"indirect\"");
        refuses("another information model", "\"RIMIM\"", "\"PC Client RIM\"");
        refuses("another version of the model", "\"1.01\"", "\"1.02\"");
    }

    #[test]
    fn refuses_resources_that_are_not_exact() {
        let zero = "index=\"0\" active=\"False\"";
        refuses("repeated index", "index=\"1\"", "index=\"0\"");
        refuses("index 64", "index=\"63\"", "index=\"64\"");
        refuses("padded index", zero, "index=\"00\" active=\"False\"");
        refuses("signed index", zero, "index=\"+0\" active=\"False\"");
        refuses("negative index", zero, "index=\"-0\" active=\"False\"");
        refuses("empty index", zero, "index=\"\" active=\"False\"");
        refuses("active in small letters", zero, "index=\"0\" active=\"false\"");
        refuses("active as a number", zero, "index=\"0\" active=\"1\"");
        refuses("no active index", "active=\"True\"", "active=\"False\"");
        refuses("more alternatives than hashes", "alternatives=\"1\"", "alternatives=\"2\"");
        refuses("fewer alternatives than hashes", "alternatives=\"2\"", "alternatives=\"1\"");
        refuses("no alternative", "alternatives=\"1\"", "alternatives=\"0\"");
        refuses("padded alternatives", "alternatives=\"1\"", "alternatives=\"01\"");
        refuses("hash left out", " ns2:Hash0=\"abab", " ns2:Hash1=\"abab");
        refuses("hash without a prefix", " ns2:Hash0=\"abab", " Hash0=\"abab");
        refuses("hash of another prefix", " ns2:Hash0=\"abab", " ns0:Hash0=\"abab");
        refuses("size 47", "size=\"48\"", "size=\"47\"");
        refuses("size 49", "size=\"48\"", "size=\"49\"");
        refuses("another type", "type=\"Measurement\"", "type=\"File\"");
        refuses("95 digits", "=\"abab", "=\"bab");
        refuses("97 digits", "=\"abab", "=\"0abab");
        refuses("98 digits", "=\"abab", "=\"00abab");
        refuses("a letter beyond f", "=\"abab", "=\"gbab");
        let text = sample();
        let last =
            &text[text.rfind("\n        <ns0:Resource").unwrap()..text.find("\n    </ns0:Payload>").unwrap()];
        refuses("one resource too few", last, "");
        refuses("one resource too many", last, &last.repeat(2));
    }

    #[test]
    fn takes_as_many_alternatives_as_the_limit_and_not_one_more() {
        let with = |count: usize| {
            let hash = "ab".repeat(48);
            let hashes: String = (0..count).map(|at| format!(" ns2:Hash{at}=\"{hash}\"")).collect();
            let document = sample().replacen(
                &format!("alternatives=\"1\" ns2:Hash0=\"{hash}\""),
                &format!("alternatives=\"{count}\"{hashes}"),
                1,
            );
            Rim::parse(document.as_bytes())
        };
        assert!(with(ALTERNATIVES_MAX).is_ok());
        assert!(with(ALTERNATIVES_MAX + 1).is_err());
    }

    #[test]
    fn refuses_values_and_certificates_of_another_form() {
        let digest = STANDARD.encode([7; 48]);
        let signature = STANDARD.encode([8; 96]);
        refuses("digest of 47 bytes", &digest, &STANDARD.encode([7; 47]));
        refuses("digest of 49 bytes", &digest, &STANDARD.encode([7; 49]));
        refuses("signature of 95 bytes", &signature, &STANDARD.encode([8; 95]));
        refuses("signature of 97 bytes", &signature, &STANDARD.encode([8; 97]));
        refuses("broken signature text", &signature, &signature.replacen("CA", "C\nA", 1));
        refuses("digest is not base64", &digest, &digest.replacen('B', "*", 1));
        let text = sample();
        let from = text.find("<ds:X509Certificate>").unwrap();
        let end = "</ds:X509Certificate>";
        let one = &text[from..text.find(end).unwrap() + end.len()];
        refuses("three certificates", one, "");
        refuses("five certificates", one, &one.repeat(2));
        refuses("an empty certificate", one, "<ds:X509Certificate></ds:X509Certificate>");
        refuses("key value beside the certificates", "<ds:X509Data>", "<ds:KeyValue/><ds:X509Data>");
        let wide = text.replace("\n</ds:X509Certificate>", "</ds:X509Certificate>");
        let wide = Rim::parse(wide.as_bytes()).unwrap();
        assert_eq!(wide.certificates()[0].der(), ROOT_DER, "line breaks in certificates are not signed");
    }

    #[test]
    fn refuses_a_document_longer_than_the_limit() {
        let longest = vec![b' '; limits::RIM_LEN_MAX];
        assert!(matches!(Rim::parse(&longest), Err(Error::RimSyntax { .. })));
        let longer = vec![b' '; limits::RIM_LEN_MAX + 1];
        assert_eq!(Rim::parse(&longer).err(), Some(Error::RimLength { len: limits::RIM_LEN_MAX + 1 }));
    }

    #[test]
    fn every_prefix_of_a_document_is_refused() {
        let text = sample();
        let document = text.trim_end().as_bytes();
        for len in (0..document.len()).step_by(13).chain(document.len() - 40..document.len()) {
            assert!(Rim::parse(&document[..len]).is_err(), "{len}");
        }
        Rim::parse(document).unwrap();
    }
}
