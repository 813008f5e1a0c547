//! The certificate chain of an NVIDIA device: five certificates, and what the leaf says of device and
//! firmware.

use asn1_rs::{Any, Class, FromDer as _};
use x509_parser::extensions::{AuthorityKeyIdentifier, KeyIdentifier};

use super::certificate::{Certificate, PublicKey};
use super::error::Error;
use crate::wire::crypto::{self, P384_POINT_LEN};
use crate::wire::ids::Pdi;
use crate::wire::{Digest, limits};

/// Certificates of a device chain.
pub const CHAIN_COUNT: usize = 5;

/// TCG composite device id: where Hopper and LS10 leaves name the device key and the firmware id.
const OID_COMPOSITE: &str = "2.23.133.5.4.1";
/// DICE TcbInfo: where Blackwell leaves name the firmware id.
const OID_TCB_INFO: &str = "2.23.133.5.4.1.1";
const OID_SUBJECT_ALT_NAME: &str = "2.5.29.17";
const OID_SUBJECT_KEY_ID: &str = "2.5.29.14";
const OID_AUTHORITY_KEY_ID: &str = "2.5.29.35";
/// Content of 1.3.6.1.4.1.412.274.1: DMTF SPDM device info, the otherName of the leaf.
const OID_SPDM_DEVICE: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0x1c, 0x82, 0x12, 0x01];
/// Content of 2.16.840.1.101.3.4.2.2.
const OID_SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
/// What stands before the point in the SubjectPublicKeyInfo of an uncompressed P-384 key.
const SPKI_P384: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
/// First byte of a GPU's BROM serial.
const SERIAL_GPU: u8 = 0x41;
/// First byte of an NVSwitch's BROM serial.
const SERIAL_SWITCH: u8 = 0x50;

/// What the leaf certificate says of the firmware whose key it certifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirmwareId {
    /// Hopper and LS10: the device's own public point beside the digest.
    Composite { point: [u8; P384_POINT_LEN], fwid: Digest<48> },
    /// Blackwell: the first of the FWIDs, and the model.
    TcbInfo { model: String, fwid: Digest<48> },
}

impl FirmwareId {
    /// Returns the firmware id.
    pub fn fwid(&self) -> Digest<48> {
        match self {
            Self::Composite { fwid, .. } | Self::TcbInfo { fwid, .. } => *fwid,
        }
    }
}

/// The device's name in the leaf certificate, such as `NVIDIA:GH100:48B02D51C9C1070B`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    pub chip: String,
    /// 16 upper-case hex digits. Not the PDI.
    pub serial: String,
}

/// What kind of device a BROM serial is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    Gpu,
    Switch,
}

/// The roles of a chain's certificates, leaf first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leaf,
    Brom,
    Provisioner,
    Identity,
    Root,
}

impl Role {
    /// Every role, leaf first.
    pub const ALL: [Self; CHAIN_COUNT] =
        [Self::Leaf, Self::Brom, Self::Provisioner, Self::Identity, Self::Root];

    /// Returns the word that messages use.
    pub fn text(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Brom => "BROM",
            Self::Provisioner => "provisioner",
            Self::Identity => "identity",
            Self::Root => "root",
        }
    }
}

/// A parsed device chain. Nothing of it is believed yet.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Holds the attestation key; changes with the firmware.
    pub leaf: Certificate,
    /// The device's own CA; stays for the life of the chip.
    pub brom: Certificate,
    pub provisioner: Certificate,
    pub identity: Certificate,
    pub root: Certificate,
    /// `None` if the leaf carries neither extension.
    pub firmware_id: Option<FirmwareId>,
    /// `None` if the leaf carries no subjectAltName.
    pub device_name: Option<DeviceName>,
}

impl Chain {
    /// Parses a device chain.
    ///
    /// Shape: PEM text of at most `GPU_CHAIN_LEN_MAX` bytes with exactly five certificates, leaf first.
    ///
    /// Errors: `GpuChain` for the text or a certificate; `GpuChainCount`; `GpuChainExtension` for an
    /// extension of the leaf that does not have its form.
    ///
    /// Source: NVIDIA's published chains; TCG DICE Attestation Architecture 1.1, DiceTcbInfo; DMTF DSP0274,
    /// otherName.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        let inner = |error: Error| Error::GpuChain { what: error.to_string() };
        let list = Certificate::list_from_pem(text, limits::GPU_CHAIN_LEN_MAX).map_err(inner)?;
        let list = list.into_iter().map(Certificate::without_p256).collect::<Result<Vec<_>, _>>();
        let list = list.map_err(inner)?;
        let count = list.len();
        let list: [Certificate; CHAIN_COUNT] = list.try_into().map_err(|_| Error::GpuChainCount { count })?;
        let [leaf, brom, provisioner, identity, root] = list;
        let wrong = |what| move || Error::GpuChainExtension { what };
        let composite = leaf.extension(OID_COMPOSITE);
        let tcb = leaf.extension(OID_TCB_INFO);
        let firmware_id = match (composite, tcb) {
            (None, None) => None,
            (Some(found), None) => Some(composite_id(&found.value).ok_or_else(wrong("composite device id"))?),
            (None, Some(found)) => Some(tcb_info(&found.value).ok_or_else(wrong("DICE TcbInfo"))?),
            (Some(_), Some(_)) => return Err(wrong("one of the two firmware id extensions")()),
        };
        let device_name = leaf
            .extension(OID_SUBJECT_ALT_NAME)
            .map(|found| device_name(&found.value).ok_or_else(wrong("SPDM device name")))
            .transpose()?;
        Ok(Self { leaf, brom, provisioner, identity, root, firmware_id, device_name })
    }

    /// Returns the certificate of a role.
    pub fn certificate(&self, role: Role) -> &Certificate {
        match role {
            Role::Leaf => &self.leaf,
            Role::Brom => &self.brom,
            Role::Provisioner => &self.provisioner,
            Role::Identity => &self.identity,
            Role::Root => &self.root,
        }
    }

    /// Returns the chip that a certificate's common name states; `None` if the name does not have the form
    /// of its role.
    ///
    /// Shape: `GH100 A01 GSP FMC LF`, `GH100 A01 GSP BROM`, `NVIDIA GH100 Provisioner ICA 1`, `NVIDIA GH100
    /// Identity`; the root names no chip.
    pub fn chip(&self, role: Role) -> Option<&str> {
        let name = self.certificate(role).subject_cn.as_str();
        let (chip, rest) = match role {
            Role::Leaf | Role::Brom => name.split_once(' ')?,
            Role::Provisioner | Role::Identity => name.strip_prefix("NVIDIA ")?.split_once(' ')?,
            Role::Root => return None,
        };
        let fits = match role {
            Role::Leaf => rest.ends_with(" FMC LF"),
            Role::Brom => rest.ends_with(" BROM"),
            Role::Provisioner => rest.starts_with("Provisioner ICA "),
            Role::Identity => rest == "Identity",
            Role::Root => false,
        };
        (fits && is_chip(chip)).then_some(chip)
    }

    /// Returns kind and PDI of the device, from the serial of its BROM certificate.
    ///
    /// Shape: 0x41 (GPU) or 0x50 (NVSwitch), then the eight bytes of the PDI, not all zero.
    pub fn pdi(&self) -> Option<(DeviceKind, Pdi)> {
        let (first, pdi) = self.brom.serial.split_first()?;
        let kind = match *first {
            SERIAL_GPU => DeviceKind::Gpu,
            SERIAL_SWITCH => DeviceKind::Switch,
            _ => return None,
        };
        let pdi: [u8; 8] = pdi.try_into().ok()?;
        (pdi != [0; 8]).then(|| (kind, Pdi::new(pdi)))
    }

    /// Returns the point of the attestation key; `None` if it is no P-384 key.
    pub fn attestation_key(&self) -> Option<&[u8; P384_POINT_LEN]> {
        point(&self.leaf)
    }

    /// Returns the point of the device's own key; `None` if it is no P-384 key.
    pub fn device_key(&self) -> Option<&[u8; P384_POINT_LEN]> {
        point(&self.brom)
    }

    /// Returns the SHA-256 of the BROM certificate's SubjectPublicKeyInfo, by which a device can be pinned.
    pub fn device_key_digest(&self) -> Option<Digest<32>> {
        self.device_key().map(|point| crypto::sha256(&[&SPKI_P384, point]))
    }
}

/// Returns the subject key id and the authority key id of a certificate, each where it is given and well
/// formed.
pub fn key_ids(certificate: &Certificate) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let subject = certificate.extension(OID_SUBJECT_KEY_ID).and_then(|found| {
        let (rest, id) = KeyIdentifier::from_der(&found.value).ok()?;
        rest.is_empty().then(|| id.0.to_vec())
    });
    let authority = certificate.extension(OID_AUTHORITY_KEY_ID).and_then(|found| {
        let (rest, id) = AuthorityKeyIdentifier::from_der(&found.value).ok()?;
        let id = id.key_identifier?;
        rest.is_empty().then(|| id.0.to_vec())
    });
    (subject, authority)
}

fn point(certificate: &Certificate) -> Option<&[u8; P384_POINT_LEN]> {
    match &certificate.key {
        PublicKey::P384(point) => Some(point),
        PublicKey::P256(_) | PublicKey::Rsa4096(_) => None,
    }
}

fn is_chip(text: &str) -> bool {
    (1..=16).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Takes one element off the front.
fn element(bytes: &[u8], class: Class, constructed: bool, tag: u32) -> Option<(&[u8], &[u8])> {
    let (rest, any) = Any::from_der(bytes).ok()?;
    let header = &any.header;
    let fits = header.class() == class && header.constructed() == constructed && header.tag().0 == tag;
    fits.then_some((rest, any.data))
}

fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes, Class::Universal, true, 16)
}

fn octets(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes, Class::Universal, false, 4)
}

fn takes_oid<'a>(bytes: &'a [u8], expected: &[u8]) -> Option<&'a [u8]> {
    let (rest, oid) = element(bytes, Class::Universal, false, 6)?;
    (oid == expected).then_some(rest)
}

/// Reads what must be all of it.
fn whole<'a>((rest, content): (&'a [u8], &'a [u8])) -> Option<&'a [u8]> {
    rest.is_empty().then_some(content)
}

/// Reads SEQUENCE { OID sha384, OCTET STRING of 48 bytes } off the front.
fn fwid(bytes: &[u8]) -> Option<(&[u8], Digest<48>)> {
    let (rest, content) = sequence(bytes)?;
    let digest = whole(octets(takes_oid(content, OID_SHA384)?)?)?;
    Some((rest, Digest::new(digest.try_into().ok()?)))
}

/// SEQUENCE { INTEGER 1, SubjectPublicKeyInfo, SEQUENCE { OID sha384, OCTET STRING } }: key and digest are
/// siblings.
fn composite_id(bytes: &[u8]) -> Option<FirmwareId> {
    let content = whole(sequence(bytes)?)?;
    let (content, version) = element(content, Class::Universal, false, 2)?;
    if version != [1] {
        return None;
    }
    let (key, content) = content.split_at_checked(SPKI_P384.len() + P384_POINT_LEN)?;
    let point: [u8; P384_POINT_LEN] = key.strip_prefix(&SPKI_P384)?.try_into().ok()?;
    let (rest, fwid) = fwid(content)?;
    rest.is_empty().then_some(FirmwareId::Composite { point, fwid })
}

/// DiceTcbInfo with all ten members: [0] vendor, [1] model, [2] version, [3] svn, [4] layer, [5] index, [6]
/// fwids, [7] flags, [8] vendor info, [9] type. The second of the two FWIDs is zero in what has been seen
/// and says nothing.
fn tcb_info(bytes: &[u8]) -> Option<FirmwareId> {
    let mut content = whole(sequence(bytes)?)?;
    let mut members: [&[u8]; 10] = [&[]; 10];
    for (tag, member) in (0u32..).zip(&mut members) {
        (content, *member) = element(content, Class::ContextSpecific, tag == 6, tag)?;
    }
    let [vendor, model, _, _, _, _, fwids, ..] = members;
    if !content.is_empty() || vendor != b"NVIDIA" {
        return None;
    }
    let model = std::str::from_utf8(model).ok()?.to_string();
    let (rest, first) = fwid(fwids)?;
    let (rest, _second) = fwid(rest)?;
    rest.is_empty().then_some(FirmwareId::TcbInfo { model, fwid: first })
}

/// SEQUENCE { [0] { OID, [0] { UTF8String `NVIDIA:chip:serial` } } }, one name alone.
fn device_name(bytes: &[u8]) -> Option<DeviceName> {
    let names = whole(sequence(bytes)?)?;
    let other_name = whole(element(names, Class::ContextSpecific, true, 0)?)?;
    let value = takes_oid(other_name, OID_SPDM_DEVICE)?;
    let value = whole(element(value, Class::ContextSpecific, true, 0)?)?;
    let text = whole(element(value, Class::Universal, false, 12)?)?;
    let parts: Vec<&str> = std::str::from_utf8(text).ok()?.split(':').collect();
    let ["NVIDIA", chip, serial] = parts[..] else { return None };
    let hex = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let fits = is_chip(chip) && serial.len() == 16 && serial.bytes().all(hex);
    fits.then(|| DeviceName { chip: chip.to_string(), serial: serial.to_string() })
}

#[cfg(test)]
mod tests {
    use super::super::gpu_built::{self, Built, OID_COMPOSITE, OID_SAN, pem, tlv};
    use super::*;

    fn parsed(change: impl FnOnce(&mut Built)) -> Result<Chain, Error> {
        let mut built = Built::hopper();
        change(&mut built);
        Chain::from_pem(&pem(&built.ders()))
    }

    #[test]
    fn a_well_formed_chain_gives_device_and_firmware() {
        let chain = parsed(|_| {}).unwrap();
        assert_eq!(chain.firmware_id.as_ref().unwrap().fwid(), Digest::new([0xf1; 48]));
        assert_eq!(chain.device_name.as_ref().unwrap().serial, "48B02D51C9C1070B");
        assert_eq!(chain.pdi(), Some((DeviceKind::Gpu, Pdi::new([1, 2, 3, 4, 5, 6, 7, 8]))));
        for role in [Role::Leaf, Role::Brom, Role::Provisioner, Role::Identity] {
            assert_eq!(chain.chip(role), Some("GH100"), "{}", role.text());
        }
        assert_eq!(chain.chip(Role::Root), None);
    }

    #[test]
    fn a_chain_has_exactly_five_certificates() {
        let ders = Built::hopper().ders();
        for count in 1..5 {
            let error = Chain::from_pem(&pem(&ders[..count])).unwrap_err();
            assert_eq!(error, Error::GpuChainCount { count });
        }
        let six = [&ders[..], &ders[4..]].concat();
        let text = pem(&six);
        assert!(
            text.len() <= limits::GPU_CHAIN_LEN_MAX,
            "six short ones fit, so the count alone refuses them"
        );
        assert_eq!(Chain::from_pem(&text).unwrap_err(), Error::GpuChainCount { count: 6 });
    }

    #[test]
    fn a_chain_text_is_at_most_as_long_as_the_driver_can_give() {
        let mut text = pem(&Built::hopper().ders());
        text.resize(limits::GPU_CHAIN_LEN_MAX, b'\n');
        assert!(Chain::from_pem(&text).is_ok());
        text.push(b'\n');
        assert!(matches!(Chain::from_pem(&text), Err(Error::GpuChain { .. })));
    }

    #[test]
    fn a_leaf_without_firmware_id_or_name_says_so() {
        assert_eq!(
            parsed(|built| {
                built.without(OID_COMPOSITE);
            })
            .unwrap()
            .firmware_id,
            None
        );
        assert_eq!(
            parsed(|built| {
                built.without(OID_SAN);
            })
            .unwrap()
            .device_name,
            None
        );
    }

    #[test]
    fn the_composite_id_has_its_three_members_side_by_side() {
        let built = Built::hopper();
        let good = gpu_built::composite(&built.keys[1].public(), &built.fwid);
        assert!(composite_id(&good).is_some());
        for len in 0..good.len() {
            assert!(composite_id(&good[..len]).is_none(), "{len} bytes");
        }
        for at in 0..good.len() {
            // The point and the digest are data; everything else is fixed.
            if (29..126).contains(&at) || at >= good.len() - 48 {
                continue;
            }
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert!(composite_id(&bytes).is_none(), "byte {at}");
        }
        assert!(composite_id(&[&good[..], &[0]].concat()).is_none());
        let content = whole(sequence(&good).unwrap()).unwrap();
        let four = tlv(0x30, &[content, &tlv(0x02, &[&[1]])]);
        assert!(composite_id(&four).is_none(), "a fourth member");
        let nested = tlv(0x30, &[&tlv(0x02, &[&[1]]), &tlv(0x30, &[&content[3..]])]);
        assert!(composite_id(&nested).is_none(), "key and digest inside one sequence");
    }

    #[test]
    fn tcb_info_gives_the_first_firmware_id_of_all_ten_members() {
        let good = gpu_built::tcb_info("GB100 A01 GSP", &[5; 48]);
        let expected = FirmwareId::TcbInfo { model: "GB100 A01 GSP".to_string(), fwid: Digest::new([5; 48]) };
        assert_eq!(tcb_info(&good), Some(expected));
        for len in 0..good.len() {
            assert!(tcb_info(&good[..len]).is_none(), "{len} bytes");
        }
        let content = whole(sequence(&good).unwrap()).unwrap();
        assert!(tcb_info(&tlv(0x30, &[content, &tlv(0x8a, &[&[0]])])).is_none(), "an eleventh");
        assert!(tcb_info(&tlv(0x30, &[&content[8..]])).is_none(), "no vendor");
        let mut other = good.clone();
        let vendor = good.windows(6).position(|part| part == b"NVIDIA").unwrap();
        other[vendor] = b'M';
        assert!(tcb_info(&other).is_none(), "another vendor");
    }

    #[test]
    fn both_firmware_ids_in_one_leaf_are_refused() {
        let error = parsed(|built| {
            let value = gpu_built::tcb_info("GB100 A01 GSP", &[5; 48]);
            built.set(gpu_built::OID_TCB_INFO, value);
        });
        assert!(matches!(error, Err(Error::GpuChainExtension { .. })));
    }

    #[test]
    fn a_device_name_is_one_name_of_three_parts() {
        let read = |text: &str| device_name(&gpu_built::device_name(text));
        assert!(read("NVIDIA:LS_10:48B02D51C9C1070B").is_some());
        let bad = [
            "",
            "NVIDIA:GH100",
            "NVIDIA:GH100:48B02D51C9C1070B:0",
            "AMD:GH100:48B02D51C9C1070B",
            "NVIDIA::48B02D51C9C1070B",
            "NVIDIA:GH100:48B02D51C9C1070",
            "NVIDIA:GH100:48b02d51c9c1070b",
            "NVIDIA:gh100:48B02D51C9C1070B",
        ];
        for text in bad {
            assert!(read(text).is_none(), "{text:?}");
        }
        let good = gpu_built::device_name("NVIDIA:GH100:48B02D51C9C1070B");
        let one = whole(sequence(&good).unwrap()).unwrap();
        assert!(device_name(&tlv(0x30, &[one, one])).is_none(), "two names");
        let dns = tlv(0x82, &[b"example.org"]);
        assert!(device_name(&tlv(0x30, &[one, &dns])).is_none(), "a server name beside it");
        let error = parsed(|built| {
            built.set(OID_SAN, tlv(0x30, &[&dns]));
        });
        assert!(error.is_err());
    }

    #[test]
    fn the_pdi_is_the_tail_of_a_nine_byte_brom_serial() {
        let pdi = |serial: &[u8]| parsed(|built| built.plans[1].serial = serial.to_vec()).unwrap().pdi();
        let switch = Some((DeviceKind::Switch, Pdi::new([1, 2, 3, 4, 5, 6, 7, 8])));
        assert_eq!(pdi(&[0x50, 1, 2, 3, 4, 5, 6, 7, 8]), switch);
        for bad in [
            &[0x42, 1, 2, 3, 4, 5, 6, 7, 8][..],
            &[0x41, 1, 2, 3, 4, 5, 6, 7],
            &[0x41, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[0x41, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x41],
        ] {
            assert_eq!(pdi(bad), None, "{bad:02x?}");
        }
    }

    #[test]
    fn a_common_name_has_the_form_of_its_role() {
        let chip = |place: usize, role: Role, cn: &str| {
            let chain = parsed(|built| built.plans[place].cn = cn.to_string()).unwrap();
            chain.chip(role).map(str::to_string)
        };
        assert_eq!(chip(0, Role::Leaf, "LS_10 A01 FSP FMC LF").as_deref(), Some("LS_10"));
        assert_eq!(chip(0, Role::Leaf, "GH100 A01 GSP BROM"), None);
        assert_eq!(chip(1, Role::Brom, "GH100 A01 GSP FMC LF"), None);
        assert_eq!(chip(1, Role::Brom, "gh100 A01 GSP BROM"), None);
        assert_eq!(chip(2, Role::Provisioner, "NVIDIA GH100 Identity"), None);
        assert_eq!(chip(3, Role::Identity, "NVIDIA GH100 Identity CA"), None);
        assert_eq!(chip(3, Role::Identity, ""), None);
    }
}
