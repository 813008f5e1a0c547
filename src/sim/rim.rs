//! Simulated RIM documents in the one dialect that NVIDIA writes, with their signature.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::chip::Family;
use super::nvidia::Nvidia;
use super::x509::{self, Authority, Signer};
use crate::wire::crypto::{self, CryptoError};

/// Reference values by RIM index, with their alternatives.
pub type Values = BTreeMap<u8, Vec<[u8; 48]>>;

const RESOURCES: u8 = 64;
const SWID: &str = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd";
const SHA384_NAMES: &str = "http://www.w3.org/2001/04/xmlenc#sha384";
const TCG: &str =
    "https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/";
const DSIG: &str = "http://www.w3.org/2000/09/xmldsig#";
const C14N11: &str = "http://www.w3.org/2006/12/xml-c14n11";
const ECDSA_SHA384: &str = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384";
const SHA384: &str = "http://www.w3.org/2001/04/xmldsig-more#sha384";

/// What a RIM speaks of. Without a chip: of Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RimKind {
    BlackwellDriver,
    BlackwellVbios,
    Driver,
    SwitchBios,
    Vbios,
}

impl RimKind {
    /// Returns the indices that documents of this kind mark active.
    pub fn active(self) -> Vec<u8> {
        match self {
            Self::BlackwellDriver => {
                let single = [14, 40, 41, 63].into_iter();
                let mut active: Vec<u8> = single.chain(45..=50).chain(52..=56).chain(58..=61).collect();
                active.sort_unstable();
                active
            }
            Self::BlackwellVbios => (0..=13).chain(15..=20).collect(),
            Self::Driver => std::iter::once(7).chain(21..=40).collect(),
            Self::SwitchBios => (0..=30).collect(),
            Self::Vbios => (0..=6).chain(8..=12).collect(),
        }
    }

    /// Returns the chips that documents of this kind are about.
    pub fn family(self) -> Family {
        match self {
            Self::BlackwellDriver | Self::BlackwellVbios => Family::Blackwell,
            Self::Driver | Self::Vbios => Family::Hopper,
            Self::SwitchBios => Family::Switch,
        }
    }

    /// Returns the informative name of an active index.
    fn name(self, index: u8) -> String {
        match (self, index) {
            (Self::Driver, 21..=27 | 29..=31 | 39 | 40)
            | (Self::BlackwellDriver, 40 | 41 | 45 | 46 | 54..=56 | 58..=63) => {
                format!("MixedMeasurement_{index}")
            }
            (Self::Driver, 32 | 33 | 36..=38) | (Self::BlackwellDriver, 47..=50 | 52 | 53) => {
                format!("HashedMeasurement_{index}_GSP")
            }
            (Self::Driver, 34) => format!("MixedHashedMeasurement_{index}"),
            (Self::Vbios, 1..=6) | (Self::SwitchBios, 0..=3 | 27) => {
                format!("HashedMeasurement_{index}_FSP")
            }
            _ => format!("Measurement_{index}"),
        }
    }
}

/// Returns the reference values of a simulated version: made from kind, version and index alone, with zeros and
/// alternatives where real documents have them.
pub fn reference_values(kind: RimKind, version: &str) -> Values {
    let value = |index: u8, alternative: u8| {
        let kind = match kind {
            RimKind::BlackwellDriver => "Blackwell driver",
            RimKind::BlackwellVbios => "Blackwell vbios",
            RimKind::Driver => "driver",
            RimKind::SwitchBios => "switch BIOS",
            RimKind::Vbios => "vbios",
        };
        let label = format!("simulated {kind} {version}");
        *crypto::sha384(&[label.as_bytes(), &[0, index, alternative]]).bytes()
    };
    let four = |index: u8| (0..4).map(|alternative| value(index, alternative)).collect::<Vec<_>>();
    let zero_or = |index: u8| vec![[0; 48], value(index, 1), value(index, 2), value(index, 3)];
    let alternatives = |index: u8| match (kind, index) {
        (RimKind::Vbios, 0 | 8 | 10) | (RimKind::Driver, 28) => vec![[0; 48]],
        (RimKind::Vbios, 12) => zero_or(index),
        (RimKind::Driver, 23 | 24) => vec![value(index, 0), [0; 48]],
        (RimKind::Driver, 32 | 34 | 36) => vec![value(index, 0), value(index, 1)],
        (RimKind::Driver, 35) => four(index),
        (RimKind::BlackwellVbios, 0 | 5 | 7 | 9 | 10 | 15 | 16) => vec![[0; 48]],
        (RimKind::BlackwellDriver, 49 | 53) => vec![value(index, 0), value(index, 1)],
        (RimKind::BlackwellDriver, 52) => four(index),
        (RimKind::BlackwellDriver, 61) => vec![value(index, 0), [0; 48]],
        (RimKind::SwitchBios, 5 | 7) => vec![[0; 48]],
        (RimKind::SwitchBios, 12 | 13 | 15..=17) => zero_or(index),
        (RimKind::SwitchBios, 9..=25) => four(index),
        _ => vec![value(index, 0)],
    };
    kind.active().into_iter().map(|index| (index, alternatives(index))).collect()
}

/// Returns what a machine in order measures under `reference_values`: zero where that is listed, else the last
/// alternative.
pub fn running_values(kind: RimKind, version: &str) -> BTreeMap<u8, [u8; 48]> {
    let running = |alternatives: Vec<[u8; 48]>| {
        if alternatives.contains(&[0; 48]) { None } else { alternatives.last().copied() }.unwrap_or([0; 48])
    };
    reference_values(kind, version).into_iter().map(|(index, values)| (index, running(values))).collect()
}

/// Returns what a machine in order measures under several documents, in that many blocks.
pub(super) fn measured(blocks: usize, running: &[(RimKind, &str)]) -> Vec<[u8; 48]> {
    let mut measurements = vec![[0; 48]; blocks];
    for (index, value) in running.iter().flat_map(|(kind, version)| running_values(*kind, version)) {
        if let Some(place) = measurements.get_mut(usize::from(index)) {
            *place = value;
        }
    }
    measurements
}

/// How a document shall look; every part can be made wrong.
#[derive(Debug)]
pub struct RimOptions<'a> {
    /// Attribute `tagId`; made from version and kind where `None`.
    pub tag_id: Option<String>,
    /// `GH100`.
    pub product: &'a str,
    /// `GPU`.
    pub edition: &'a str,
    /// Who signs; the L4 signer of the kind where `None`.
    pub signer: Option<&'a Authority>,
    /// Certificates of the signature as DER, leaf first; signer, L3, L2, root where `None`.
    pub chain: Option<Vec<Vec<u8>>>,
    /// Attribute `URI` of the reference.
    pub reference_uri: &'a str,
    /// Replacements made in the text before it is digested and signed, so that it verifies and yet is odd.
    pub signed_edits: Vec<(&'a str, &'a str)>,
    /// Replacements made in the finished text.
    pub late_edits: Vec<(&'a str, &'a str)>,
}

impl Default for RimOptions<'_> {
    fn default() -> Self {
        Self {
            tag_id: None,
            product: "GH100",
            edition: "GPU",
            signer: None,
            chain: None,
            reference_uri: "",
            signed_edits: Vec::new(),
            late_edits: Vec::new(),
        }
    }
}

impl RimOptions<'_> {
    /// Returns how a document of that kind looks.
    pub fn of(kind: RimKind) -> Self {
        let edition = match kind.family() {
            Family::Blackwell | Family::Hopper => "GPU",
            Family::Switch => "SWITCH",
        };
        Self { product: kind.family().product(), edition, ..Self::default() }
    }
}

impl Nvidia {
    /// Writes and signs a RIM document.
    ///
    /// Shape: ASCII with line feeds, 64 resources, one enveloped signature; one line feed at the end.
    ///
    /// Errors: `NoRandomness`.
    pub fn rim(
        &self,
        kind: RimKind,
        version: &str,
        values: &Values,
        options: &RimOptions<'_>,
    ) -> Result<Vec<u8>, CryptoError> {
        let [l4, l3, l2] = self.rim_signers(kind.family());
        let signer = options.signer.unwrap_or(l4);
        let chain = match &options.chain {
            Some(chain) => chain.clone(),
            None => {
                let above = [signer, l3, l2, &self.rim_root];
                above.map(|authority| authority.der.clone()).to_vec()
            }
        };
        let mut head = body(kind, version, values, options);
        for (from, to) in &options.signed_edits {
            head = head.replace(from, to);
        }
        let whole = canonical(&format!("{head}</SoftwareIdentity>"));
        let info = signed_info(&whole, options.reference_uri);
        let Signer::P384(key) = &signer.signer else { return Err(CryptoError::BadKey) };
        let signature = STANDARD.encode(key.sign(canonical_signed_info(&info).as_bytes())?);
        let certificates: String = chain
            .iter()
            .map(|der| format!("<ds:X509Certificate>{}</ds:X509Certificate>", x509::base64_lines(der)))
            .collect();
        let mut text = format!(
            "{head}<ds:Signature xmlns:ds=\"{DSIG}\">{info}\
             <ds:SignatureValue>{signature}</ds:SignatureValue>\
             <ds:KeyInfo><ds:X509Data>{certificates}</ds:X509Data></ds:KeyInfo></ds:Signature>\
             </SoftwareIdentity>\n"
        );
        for (from, to) in &options.late_edits {
            text = text.replace(from, to);
        }
        Ok(text.into_bytes())
    }
}

fn body(kind: RimKind, version: &str, values: &Values, options: &RimOptions<'_>) -> String {
    let tag_id = options
        .tag_id
        .clone()
        .unwrap_or_else(|| crypto::sha384(&[version.as_bytes(), kind.name(1).as_bytes()]).to_string());
    let (product, edition) = (options.product, options.edition);
    let mut text = format!(
        "<SoftwareIdentity xmlns=\"{SWID}\" xmlns:ns0=\"{SWID}\" xmlns:ns2=\"{SHA384_NAMES}\" corpus=\"false\" \
         name=\"{product}\" patch=\"false\" supplemental=\"false\" tagId=\"{tag_id}\" version=\"1.0\" \
         tagVersion=\"0\">\n    \
         <ns0:Entity name=\"NVIDIA Corporation\" role=\"softwareCreator tagCreator\"/>\n    \
         <ns0:Meta xmlns:ns1=\"{TCG}\" colloquialVersion=\"{version}\" edition=\"{edition}\" \
         product=\"{product}\" revision=\"r1\" PayloadType=\"direct\" ns1:BindingSpec=\"RIMIM\" \
         ns1:BindingSpecVersion=\"1.01\" ns1:PlatformManufacturerId=\"5703\" \
         ns1:PlatformManufacturerStr=\"NVIDIA Corporation\" ns1:PlatformModel=\"{product}\" \
         ns1:FirmwareManufacturer=\"NVIDIA Corporation\" ns1:FirmwareManufacturerId=\"5703\"/>\n    \
         <ns0:Payload xmlns:SHA384=\"{SHA384_NAMES}\">\n"
    );
    for index in 0..RESOURCES {
        text += &resource(kind, index, values.get(&index));
    }
    text + "    </ns0:Payload>\n"
}

fn resource(kind: RimKind, index: u8, values: Option<&Vec<[u8; 48]>>) -> String {
    let unused = vec![[0; 48]];
    let (active, name, values) = match values {
        Some(values) => ("True", kind.name(index), values),
        None => ("False", format!("Measurement_{index}"), &unused),
    };
    let hashes: String = values
        .iter()
        .enumerate()
        .map(|(number, value)| format!("ns2:Hash{number}=\"{}\" ", hex::encode(value)))
        .collect();
    format!(
        "        <ns0:Resource type=\"Measurement\" index=\"{index}\" active=\"{active}\" \
         alternatives=\"{}\" {hashes}name=\"{name}\" size=\"48\"/>\n",
        values.len()
    )
}

fn signed_info(canonical: &str, reference_uri: &str) -> String {
    let digest = STANDARD.encode(crypto::sha384(&[canonical.as_bytes()]).bytes());
    format!(
        "<ds:SignedInfo><ds:CanonicalizationMethod Algorithm=\"{C14N11}\"/>\
         <ds:SignatureMethod Algorithm=\"{ECDSA_SHA384}\"/><ds:Reference URI=\"{reference_uri}\">\
         <ds:Transforms><ds:Transform Algorithm=\"{DSIG}enveloped-signature\"/>\
         <ds:Transform Algorithm=\"{C14N11}\"/></ds:Transforms><ds:DigestMethod Algorithm=\"{SHA384}\"/>\
         <ds:DigestValue>{digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>"
    )
}

/// Returns the canonical form of a `ds:SignedInfo` element as it stands in a document, with the declarations that it
/// inherits.
pub fn canonical_signed_info(info: &str) -> String {
    let inherited = format!(
        "<ds:SignedInfo xmlns=\"{SWID}\" xmlns:ds=\"{DSIG}\" xmlns:ns0=\"{SWID}\" xmlns:ns2=\"{SHA384_NAMES}\">"
    );
    canonical(&info.replacen("<ds:SignedInfo>", &inherited, 1))
}

/// Returns the canonical form of a text in this dialect: comments dropped, empty elements spelled out, declarations
/// and attributes sorted.
///
/// Source: Canonical XML 1.1, for texts without entities, processing instructions and inherited `xml:` attributes.
pub fn canonical(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        out += before;
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((inside, after)) = tag.split_once('>') else { break };
        rest = after;
        out += &canonical_tag(inside);
    }
    out + rest
}

fn canonical_tag(inside: &str) -> String {
    let (inside, empty) = match inside.strip_suffix('/') {
        Some(inside) => (inside, true),
        None => (inside, false),
    };
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    let mut attributes = Vec::new();
    while let Some((key, after)) = rest.trim_start().split_once("=\"") {
        let (value, after) = after.split_once('"').unwrap_or((after, ""));
        attributes.push((key, value));
        rest = after;
    }
    attributes.sort_by_key(|(key, _)| sort_key(key));
    let attributes: String = attributes.iter().map(|(key, value)| format!(" {key}=\"{value}\"")).collect();
    let end = if empty { format!("</{name}>") } else { String::new() };
    format!("<{name}{attributes}>{end}")
}

/// Declarations first, the default one before the others; then attributes by namespace and local name.
fn sort_key(key: &str) -> (u8, &str, &str) {
    match key.split_once(':') {
        None if key == "xmlns" => (0, "", ""),
        Some(("xmlns", prefix)) => (1, prefix, ""),
        None => (2, "", key),
        Some(("ns0", local)) => (3, SWID, local),
        Some(("ns1", local)) => (3, TCG, local),
        Some(("ns2", local)) => (3, SHA384_NAMES, local),
        Some((prefix, local)) => (3, prefix, local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_sorts_expands_and_drops_comments() {
        let root = r#"<a tagId="t" xmlns:ns2="v" corpus="c" xmlns="u">"#;
        let child = r#"<!-- <b/> --><ns0:b name="n" ns2:Hash1="y" ns2:Hash0="x" Z="z"/>"#;
        let canonical_root = r#"<a xmlns="u" xmlns:ns2="v" corpus="c" tagId="t">"#;
        let canonical_child = r#"<ns0:b Z="z" name="n" ns2:Hash0="x" ns2:Hash1="y"></ns0:b>"#;
        let text = format!("{root}{child}</a>");
        assert_eq!(canonical(&text), format!("{canonical_root}{canonical_child}</a>"));
    }

    #[test]
    fn versions_and_kinds_have_their_own_values() {
        let values = reference_values(RimKind::Driver, "550.90.07");
        assert_ne!(values, reference_values(RimKind::Driver, "550.90.08"));
        assert_ne!(values[&7], reference_values(RimKind::Vbios, "550.90.07")[&6]);
        for (driver, vbios) in
            [(RimKind::Driver, RimKind::Vbios), (RimKind::BlackwellDriver, RimKind::BlackwellVbios)]
        {
            let driver = driver.active();
            assert!(vbios.active().iter().all(|index| !driver.contains(index)));
        }
    }
}
