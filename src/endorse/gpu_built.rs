//! Test endorsements: device chains signed by our own keys, so that each rule can be broken alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::wire::crypto::P384Key;

/// One certificate before it is signed.
#[derive(Clone)]
pub(crate) struct Plan {
    pub cn: String,
    /// Written in place of the next certificate's name.
    pub issuer: Option<String>,
    pub serial: Vec<u8>,
    pub not_before: &'static str,
    pub not_after: &'static str,
    /// Basic constraints: CA and path length; `None` leaves the extension out.
    pub ca: Option<(bool, Option<u8>)>,
    /// The bits of key usage, and how many at the end are unused.
    pub usage: Option<[u8; 2]>,
    /// Written in place of the issuer's key id.
    pub authority_key: Option<Vec<u8>>,
    /// Further extensions: object identifier as DER content, criticality, value.
    pub extensions: Vec<(Vec<u8>, bool, Vec<u8>)>,
    /// Breaks the signature.
    pub forged: bool,
}

/// A chain of five, leaf first.
pub(crate) struct Built {
    pub plans: Vec<Plan>,
    pub keys: Vec<P384Key>,
    pub fwid: [u8; 48],
}

const DIGITAL_SIGNATURE: [u8; 2] = [0x80, 7];
const CERT_SIGN: [u8; 2] = [0x04, 2];
const OID_EXTENSION: &[u8] = &[0x55, 0x1d];
pub(crate) const OID_SAN: &[u8] = &[0x55, 0x1d, 17];
pub(crate) const OID_COMPOSITE: &[u8] = &[0x67, 0x81, 0x05, 0x05, 0x04, 0x01];
pub(crate) const OID_TCB_INFO: &[u8] = &[0x67, 0x81, 0x05, 0x05, 0x04, 0x01, 0x01];
const OID_SPDM: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0x1c, 0x82, 0x12, 0x01];
const OID_SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const OID_ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];

/// Writes one DER element.
pub(crate) fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let len = u16::try_from(content.len()).unwrap().to_be_bytes();
    let len = match content.len() {
        0..0x80 => vec![len[1]],
        0x80..0x100 => vec![0x81, len[1]],
        _ => vec![0x82, len[0], len[1]],
    };
    [&[tag][..], &len, &content].concat()
}

/// A subjectAltName with the SPDM device name alone.
pub(crate) fn device_name(text: &str) -> Vec<u8> {
    let text = tlv(0xa0, &[&tlv(0x0c, &[text.as_bytes()])]);
    tlv(0x30, &[&tlv(0xa0, &[&tlv(0x06, &[OID_SPDM]), &text])])
}

/// A composite device id.
pub(crate) fn composite(point: &[u8; 97], fwid: &[u8; 48]) -> Vec<u8> {
    tlv(0x30, &[&tlv(0x02, &[&[1]]), &spki(point), &fwid_of(fwid)])
}

/// A DICE TcbInfo as Blackwell leaves have it.
pub(crate) fn tcb_info(model: &str, fwid: &[u8; 48]) -> Vec<u8> {
    let fwids = tlv(0xa6, &[&fwid_of(fwid), &fwid_of(&[0; 48])]);
    tlv(
        0x30,
        &[
            &tlv(0x80, &[b"NVIDIA"]),
            &tlv(0x81, &[model.as_bytes()]),
            &tlv(0x82, &[b"01"]),
            &tlv(0x83, &[&[1]]),
            &tlv(0x84, &[&[0]]),
            &tlv(0x85, &[&[0]]),
            &fwids,
            &tlv(0x87, &[&[0, 0x80, 0, 0, 1]]),
            &tlv(0x88, &[&[0xc0]]),
            &tlv(0x89, &[&[0]]),
        ],
    )
}

fn fwid_of(fwid: &[u8; 48]) -> Vec<u8> {
    tlv(0x30, &[&tlv(0x06, &[OID_SHA384]), &tlv(0x04, &[fwid])])
}

fn spki(point: &[u8; 97]) -> Vec<u8> {
    tlv(0x30, &[&tlv(0x30, &[&tlv(0x06, &[OID_EC]), &tlv(0x06, &[OID_P384])]), &tlv(0x03, &[&[0], point])])
}

fn name(cn: &str) -> Vec<u8> {
    let pair = tlv(0x30, &[&tlv(0x06, &[&[0x55, 0x04, 0x03]]), &tlv(0x0c, &[cn.as_bytes()])]);
    tlv(0x30, &[&tlv(0x31, &[&pair])])
}

fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len() - 1);
    let sign: &[u8] = if bytes[start] >= 0x80 { &[0] } else { &[] };
    tlv(0x02, &[sign, &bytes[start..]])
}

fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { tlv(0x01, &[&[0xff]]) } else { Vec::new() };
    tlv(0x30, &[&tlv(0x06, &[oid]), &critical, &tlv(0x04, &[value])])
}

impl Plan {
    fn ca(cn: &str) -> Self {
        Self {
            cn: cn.to_string(),
            issuer: None,
            serial: vec![0x11; 16],
            not_before: "20200101000000Z",
            not_after: "99991231235959Z",
            ca: Some((true, None)),
            usage: Some(CERT_SIGN),
            authority_key: None,
            extensions: Vec::new(),
            forged: false,
        }
    }

    fn der(&self, place: usize, issuer: &str, key: &P384Key, signer: &P384Key) -> Vec<u8> {
        let id = |number: usize| vec![u8::try_from(number).unwrap(); 20];
        let mut extensions = Vec::new();
        if let Some((ca, path_len)) = self.ca {
            let ca = if ca { tlv(0x01, &[&[0xff]]) } else { Vec::new() };
            let path_len = path_len.map_or(Vec::new(), |len| tlv(0x02, &[&[len]]));
            let id = [OID_EXTENSION, &[19]].concat();
            extensions.push(extension(&id, true, &tlv(0x30, &[&ca, &path_len])));
        }
        if let Some([bits, unused]) = self.usage {
            let id = [OID_EXTENSION, &[15]].concat();
            extensions.push(extension(&id, true, &tlv(0x03, &[&[unused, bits]])));
        }
        let subject_key = tlv(0x04, &[&id(place)]);
        extensions.push(extension(&[OID_EXTENSION, &[14]].concat(), false, &subject_key));
        let authority = self.authority_key.clone().unwrap_or(id((place + 1).min(4)));
        let authority = tlv(0x30, &[&tlv(0x80, &[&authority])]);
        extensions.push(extension(&[OID_EXTENSION, &[35]].concat(), false, &authority));
        extensions
            .extend(self.extensions.iter().map(|(id, critical, value)| extension(id, *critical, value)));
        let algorithm = tlv(0x30, &[&tlv(0x06, &[OID_ECDSA_SHA384])]);
        let dates = [self.not_before, self.not_after].map(|date| {
            match date.strip_prefix("20").filter(|_| date < "2050") {
                Some(short) => tlv(0x17, &[short.as_bytes()]),
                None => tlv(0x18, &[date.as_bytes()]),
            }
        });
        let tbs = tlv(
            0x30,
            &[
                &tlv(0xa0, &[&tlv(0x02, &[&[2]])]),
                &integer(&self.serial),
                &algorithm,
                &name(issuer),
                &tlv(0x30, &[&dates[0], &dates[1]]),
                &name(&self.cn),
                &spki(&key.public()),
                &tlv(0xa3, &[&tlv(0x30, &[&extensions.concat()])]),
            ],
        );
        let mut signature = signer.sign(&tbs).unwrap();
        if self.forged {
            signature[50] ^= 1;
        }
        let (r, s) = signature.split_at(48);
        let signature = tlv(0x30, &[&integer(r), &integer(s)]);
        tlv(0x30, &[&tbs, &algorithm, &tlv(0x03, &[&[0], &signature])])
    }
}

impl Built {
    /// The chain of a Hopper GPU with PDI 0102030405060708 and firmware id 0xf1.
    pub(crate) fn hopper() -> Self {
        let keys: Vec<P384Key> = (0..5).map(|_| P384Key::generate().unwrap().0).collect();
        let fwid = [0xf1; 48];
        let mut leaf = Plan::ca("GH100 A01 GSP FMC LF");
        leaf.ca = None;
        leaf.usage = Some(DIGITAL_SIGNATURE);
        leaf.extensions = vec![
            (OID_SAN.to_vec(), false, device_name("NVIDIA:GH100:48B02D51C9C1070B")),
            (OID_COMPOSITE.to_vec(), false, composite(&keys[1].public(), &fwid)),
        ];
        let mut brom = Plan::ca("GH100 A01 GSP BROM");
        brom.serial = vec![0x41, 1, 2, 3, 4, 5, 6, 7, 8];
        let plans = vec![
            leaf,
            brom,
            Plan::ca("NVIDIA GH100 Provisioner ICA 1"),
            Plan::ca("NVIDIA GH100 Identity"),
            Plan::ca("NVIDIA Device Identity CA"),
        ];
        Self { plans, keys, fwid }
    }

    /// The chain of an LS10 NVSwitch with PDI 0102030405060708.
    pub(crate) fn switch() -> Self {
        let mut built = Self::hopper();
        for (plan, cn) in built.plans.iter_mut().zip([
            "LS_10 A01 FSP FMC LF",
            "LS_10 A01 FSP BROM",
            "NVIDIA LS_10 Provisioner ICA 1",
        ]) {
            plan.cn = cn.to_string();
        }
        built.plans[1].serial[0] = 0x50;
        built.set(OID_SAN, device_name("NVIDIA:LS_10:48B02DFE0092CDDB"));
        built
    }

    /// Replaces an extension of the leaf.
    pub(crate) fn set(&mut self, oid: &[u8], value: Vec<u8>) -> &mut Self {
        self.without(oid).plans[0].extensions.push((oid.to_vec(), false, value));
        self
    }

    /// Leaves an extension of the leaf out.
    pub(crate) fn without(&mut self, oid: &[u8]) -> &mut Self {
        self.plans[0].extensions.retain(|extension| extension.0 != oid);
        self
    }

    /// Writes the certificates, leaf first.
    pub(crate) fn ders(&self) -> Vec<Vec<u8>> {
        let der = |place: usize| {
            let above = (place + 1).min(4);
            let issuer = self.plans[place].issuer.as_ref().unwrap_or(&self.plans[above].cn);
            self.plans[place].der(place, issuer, &self.keys[place], &self.keys[above])
        };
        (0..5).map(der).collect()
    }
}

/// Writes certificates as PEM.
pub(crate) fn pem(ders: &[Vec<u8>]) -> Vec<u8> {
    let block = |der: &Vec<u8>| {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
    };
    ders.iter().map(block).collect::<String>().into_bytes()
}
