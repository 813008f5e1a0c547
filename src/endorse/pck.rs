//! What a PCK certificate says of its platform: the SGX extension.

use super::certificate::{Certificate, PublicKey, SignatureAlgorithm};
use super::der::{Der, NotDer};
use super::error::Error;

/// Common name of every PCK certificate. A sanity check: it is Intel's signature that counts.
pub const PCK_CN: &str = "Intel SGX PCK Certificate";
/// Common name of the CA above the certificates of multi-package platforms.
pub const PLATFORM_CA_CN: &str = "Intel SGX PCK Platform CA";
/// Common name of the CA above the certificates of single-package platforms.
pub const PROCESSOR_CA_CN: &str = "Intel SGX PCK Processor CA";
/// Common name of the root.
pub const ROOT_CN: &str = "Intel SGX Root CA";
/// Common name of the signer of TCB info and QE identity.
pub const TCB_SIGNER_CN: &str = "Intel SGX TCB Signing";

/// The SGX extension, in dotted form and as content octets; its fields continue it.
pub const OID_SGX: &str = "1.2.840.113741.1.13.1";
const SGX: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x01];

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;

/// How the platform was configured when its certificate was issued: reported, never a reason to refuse by itself, since
/// every cloud has SMT on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub dynamic_platform: bool,
    pub cached_keys: bool,
    pub smt_enabled: bool,
}

/// What the SGX extension states. Nobody has checked the certificate's signature yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pck {
    /// Stable per set of CPU packages; it tracks hardware, so it is sensitive.
    pub ppid: [u8; 16],
    /// SVNs of the sixteen components; equal to the bytes of CPUSVN.
    pub components: [u8; 16],
    pub pcesvn: u16,
    pub pceid: [u8; 2],
    pub fmspc: [u8; 6],
    /// 0 standard, 1 scalable, 2 scalable with integrity.
    pub sgx_type: u8,
    /// Changes when a platform is provisioned again; platform CA only.
    pub instance_id: Option<[u8; 16]>,
    /// Platform CA only.
    pub configuration: Option<Configuration>,
}

impl Pck {
    /// Reads the SGX extension of a certificate.
    ///
    /// Shape: key P-256, signed with ecdsa-with-SHA256; one SGX extension: a SEQUENCE in which each field is a SEQUENCE
    /// of object identifier and value, in strict DER, each field once and none unknown; fields 1 to 5 always, 6 and 7
    /// as far as they stand.
    ///
    /// Errors: `Pck` with the offset in the extension; `PckComponents` where the component SVNs are not the bytes of
    /// CPUSVN: Intel's library rates by the former, others by the latter.
    ///
    /// Source: Intel, SGX PCK Certificate and CRL Specification, 1.4; measured on certificates of all vectors.
    pub fn from_certificate(certificate: &Certificate) -> Result<Self, Error> {
        if !matches!(certificate.key, PublicKey::P256(_)) {
            return Err(Error::Pck { offset: 0, expected: "a P-256 key" });
        }
        if certificate.algorithm != SignatureAlgorithm::EcdsaSha256 {
            return Err(Error::Pck { offset: 0, expected: "a signature of ECDSA with SHA-256" });
        }
        let extension = certificate.extension(OID_SGX);
        let extension = extension.ok_or(Error::Pck { offset: 0, expected: "the SGX extension" })?;
        Self::from_extension(&extension.value)
    }

    fn from_extension(value: &[u8]) -> Result<Self, Error> {
        let malformed = |NotDer { offset, expected }| Error::Pck { offset, expected };
        let fields = Fields::read(value).map_err(malformed)?;
        let missing = || Error::Pck { offset: value.len(), expected: "the fields 1 to 5 of the extension" };
        let tcb = fields.tcb.ok_or_else(missing)?;
        let pck = Self {
            ppid: fields.ppid.ok_or_else(missing)?,
            components: tcb.components,
            pcesvn: tcb.pcesvn,
            pceid: fields.pceid.ok_or_else(missing)?,
            fmspc: fields.fmspc.ok_or_else(missing)?,
            sgx_type: fields.sgx_type.ok_or_else(missing)?,
            instance_id: fields.instance_id,
            configuration: fields.configuration,
        };
        match tcb.components == tcb.cpusvn {
            true => Ok(pck),
            false => Err(Error::PckComponents { components: tcb.components, cpusvn: tcb.cpusvn }),
        }
    }
}

#[derive(Default)]
struct Fields {
    ppid: Option<[u8; 16]>,
    tcb: Option<Tcb>,
    pceid: Option<[u8; 2]>,
    fmspc: Option<[u8; 6]>,
    sgx_type: Option<u8>,
    instance_id: Option<[u8; 16]>,
    configuration: Option<Configuration>,
}

struct Tcb {
    components: [u8; 16],
    pcesvn: u16,
    cpusvn: [u8; 16],
}

impl Fields {
    fn read(value: &[u8]) -> Result<Self, NotDer> {
        let mut outer = Der::new(value);
        let mut list = outer.inside(SEQUENCE, "the SGX extension")?;
        outer.finish()?;
        let mut fields = Self::default();
        while !list.at_end() {
            let (suffix, mut field) = field(&mut list, &SGX)?;
            match suffix {
                1 => once(&mut fields.ppid, &mut field, |field| octets(field, "16 bytes of PPID"))?,
                2 => once(&mut fields.tcb, &mut field, tcb)?,
                3 => once(&mut fields.pceid, &mut field, |field| octets(field, "2 bytes of PCEID"))?,
                4 => once(&mut fields.fmspc, &mut field, |field| octets(field, "6 bytes of FMSPC"))?,
                5 => once(&mut fields.sgx_type, &mut field, sgx_type)?,
                6 => once(&mut fields.instance_id, &mut field, |field| {
                    octets(field, "16 bytes of the platform instance id")
                })?,
                7 => once(&mut fields.configuration, &mut field, configuration)?,
                _ => return Err(field.wrong("a field from 1 to 7 before this place")),
            }
            field.finish()?;
        }
        Ok(fields)
    }
}

/// Goes inside the next field; gives the last arc of its identifier, which continues `prefix`.
fn field<'a>(list: &mut Der<'a>, prefix: &[u8]) -> Result<(u8, Der<'a>), NotDer> {
    let mut field = list.inside(SEQUENCE, "a field")?;
    let wrong = field.wrong("an identifier below the SGX extension's");
    match field.take(OID, "an identifier")?.strip_prefix(prefix) {
        // One octet without its high bit is one arc below 128.
        Some([suffix @ 0..0x80]) => Ok((*suffix, field)),
        _ => Err(wrong),
    }
}

/// Reads a value into its place, which must be empty.
fn once<'a, T>(
    place: &mut Option<T>,
    field: &mut Der<'a>,
    read: impl FnOnce(&mut Der<'a>) -> Result<T, NotDer>,
) -> Result<(), NotDer> {
    match place.replace(read(field)?) {
        None => Ok(()),
        Some(_) => Err(field.wrong("each field once before this place")),
    }
}

fn octets<const N: usize>(field: &mut Der<'_>, expected: &'static str) -> Result<[u8; N], NotDer> {
    let wrong = field.wrong(expected);
    field.take(OCTET_STRING, expected)?.try_into().map_err(|_| wrong)
}

/// Reads an INTEGER from 0 to 65535 in as few bytes as can be.
fn integer(field: &mut Der<'_>, expected: &'static str) -> Result<u16, NotDer> {
    let wrong = field.wrong(expected);
    match *field.take(INTEGER, expected)? {
        [low @ 0..0x80] => Ok(u16::from(low)),
        [0, low @ 0x80..=0xff] => Ok(u16::from(low)),
        [high @ 1..0x80, low] => Ok(u16::from_be_bytes([high, low])),
        [0, high @ 0x80..=0xff, low] => Ok(u16::from_be_bytes([high, low])),
        _ => Err(wrong),
    }
}

fn sgx_type(field: &mut Der<'_>) -> Result<u8, NotDer> {
    let wrong = field.wrong("an SGX type from 0 to 2");
    match *field.take(ENUMERATED, "an SGX type from 0 to 2")? {
        [kind @ 0..=2] => Ok(kind),
        _ => Err(wrong),
    }
}

fn tcb(field: &mut Der<'_>) -> Result<Tcb, NotDer> {
    let mut list = field.inside(SEQUENCE, "the TCB")?;
    let mut components: [Option<u8>; 16] = [None; 16];
    let (mut pcesvn, mut cpusvn) = (None, None);
    let prefix = [&SGX[..], &[2]].concat();
    while !list.at_end() {
        let (suffix, mut field) = self::field(&mut list, &prefix)?;
        match (suffix, components.get_mut(usize::from(suffix).wrapping_sub(1))) {
            (1..=16, Some(component)) => once(component, &mut field, |field| {
                let wrong = field.wrong("an SVN of 8 bits");
                u8::try_from(integer(field, "an SVN")?).map_err(|_| wrong)
            })?,
            (17, _) => once(&mut pcesvn, &mut field, |field| integer(field, "a PCESVN of 16 bits"))?,
            (18, _) => once(&mut cpusvn, &mut field, |field| octets(field, "16 bytes of CPUSVN"))?,
            _ => return Err(field.wrong("a field from 1 to 18 of the TCB before this place")),
        }
        field.finish()?;
    }
    let missing = list.wrong("each field of the TCB before this place");
    let mut svns = [0; 16];
    for (svn, component) in svns.iter_mut().zip(components) {
        *svn = component.ok_or(missing)?;
    }
    Ok(Tcb { components: svns, pcesvn: pcesvn.ok_or(missing)?, cpusvn: cpusvn.ok_or(missing)? })
}

fn configuration(field: &mut Der<'_>) -> Result<Configuration, NotDer> {
    let mut list = field.inside(SEQUENCE, "the configuration")?;
    let mut flags: [Option<bool>; 3] = [None; 3];
    let prefix = [&SGX[..], &[7]].concat();
    while !list.at_end() {
        let (suffix, mut field) = self::field(&mut list, &prefix)?;
        let place = flags.get_mut(usize::from(suffix).wrapping_sub(1));
        let place = place.ok_or(field.wrong("a field from 1 to 3 of the configuration before this place"))?;
        once(place, &mut field, |field| {
            let wrong = field.wrong("TRUE or FALSE");
            match *field.take(BOOLEAN, "TRUE or FALSE")? {
                [0] => Ok(false),
                [0xff] => Ok(true),
                _ => Err(wrong),
            }
        })?;
        field.finish()?;
    }
    match flags {
        [Some(dynamic_platform), Some(cached_keys), Some(smt_enabled)] => {
            Ok(Configuration { dynamic_platform, cached_keys, smt_enabled })
        }
        _ => Err(list.wrong("each field of the configuration before this place")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let len = u8::try_from(content.len() % 256).unwrap();
        let head = match content.len() {
            0..0x80 => vec![tag, len],
            0x80..0x100 => vec![tag, 0x81, len],
            long => vec![tag, 0x82, u8::try_from(long / 256).unwrap(), len],
        };
        [head, content].concat()
    }

    fn named(suffix: &[u8], value: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[&element(OID, &[&SGX, suffix]), value])
    }

    fn octet_string(bytes: &[u8]) -> Vec<u8> {
        element(OCTET_STRING, &[bytes])
    }

    fn tcb_fields() -> Vec<Vec<u8>> {
        let component = |at: u8| match at {
            9 => named(&[2, at], &[INTEGER, 2, 0, 0x89]),
            _ => named(&[2, at], &[INTEGER, 1, at]),
        };
        let mut cpusvn: Vec<u8> = (1..=16).collect();
        cpusvn[8] = 0x89;
        let mut fields: Vec<_> = (1..=16).map(component).collect();
        fields.push(named(&[2, 17], &[INTEGER, 2, 0x12, 0x34]));
        fields.push(named(&[2, 18], &octet_string(&cpusvn)));
        fields
    }

    fn fields() -> Vec<Vec<u8>> {
        let flag = |at, value| named(&[7, at], &[BOOLEAN, 1, value]);
        vec![
            named(&[1], &octet_string(&[0xaa; 16])),
            named(&[2], &element(SEQUENCE, &[&tcb_fields().concat()])),
            named(&[3], &octet_string(&[0, 1])),
            named(&[4], &octet_string(&[0xb0, 0xc0, 0x6f, 0, 0, 0])),
            named(&[5], &[ENUMERATED, 1, 1]),
            named(&[6], &octet_string(&[0xbb; 16])),
            named(&[7], &element(SEQUENCE, &[&flag(1, 0xff), &flag(2, 0), &flag(3, 0xff)])),
        ]
    }

    fn read(fields: &[Vec<u8>]) -> Result<Pck, Error> {
        Pck::from_extension(&element(SEQUENCE, &[&fields.concat()]))
    }

    fn code(result: Result<Pck, Error>) -> &'static str {
        result.unwrap_err().code().text()
    }

    #[test]
    fn reads_every_field() {
        let pck = read(&fields()).unwrap();
        assert_eq!((pck.ppid, pck.pceid, pck.fmspc), ([0xaa; 16], [0, 1], [0xb0, 0xc0, 0x6f, 0, 0, 0]));
        assert_eq!((pck.components[0], pck.components[8], pck.components[15]), (1, 0x89, 16));
        assert_eq!((pck.pcesvn, pck.sgx_type, pck.instance_id), (0x1234, 1, Some([0xbb; 16])));
        let configuration = Configuration { dynamic_platform: true, cached_keys: false, smt_enabled: true };
        assert_eq!(pck.configuration, Some(configuration));
        let processor = read(&fields()[..5]).unwrap();
        assert_eq!((processor.instance_id, processor.configuration), (None, None));
    }

    #[test]
    fn each_of_the_first_five_fields_must_stand_and_none_twice() {
        for at in 0..5 {
            let mut fewer = fields();
            fewer.remove(at);
            assert_eq!(code(read(&fewer)), "tdx_pck_malformed", "{at}");
        }
        for at in 0..7 {
            let mut twice = fields();
            twice.push(twice[at].clone());
            assert_eq!(code(read(&twice)), "tdx_pck_malformed", "{at}");
        }
        for at in 0..18 {
            let mut fewer = tcb_fields();
            fewer.remove(at);
            let mut all = fields();
            all[1] = named(&[2], &element(SEQUENCE, &[&fewer.concat()]));
            assert_eq!(code(read(&all)), "tdx_pck_malformed", "{at}");
        }
    }

    #[test]
    fn an_unknown_field_and_another_identifier_are_refused() {
        for bad in [
            named(&[8], &octet_string(&[0])),
            named(&[0], &octet_string(&[0])),
            named(&[1, 1], &octet_string(&[0; 16])),
            named(&[], &octet_string(&[0; 16])),
            element(SEQUENCE, &[&element(OID, &[&[0x2a, 3]]), &octet_string(&[0])]),
        ] {
            let mut all = fields();
            all.push(bad);
            assert_eq!(code(read(&all)), "tdx_pck_malformed");
        }
    }

    #[test]
    fn values_have_one_spelling_and_their_length() {
        let bad: &[(usize, Vec<u8>)] = &[
            (0, named(&[1], &octet_string(&[0; 15]))),
            (0, named(&[1], &octet_string(&[0; 17]))),
            (0, named(&[1], &[INTEGER, 1, 0])),
            (2, named(&[3], &octet_string(&[0]))),
            (3, named(&[4], &octet_string(&[0; 7]))),
            (4, named(&[5], &[ENUMERATED, 1, 3])),
            (4, named(&[5], &[ENUMERATED, 2, 0, 1])),
            (4, named(&[5], &[INTEGER, 1, 1])),
            (5, named(&[6], &octet_string(&[0; 8]))),
            (6, named(&[7], &element(SEQUENCE, &[&named(&[7, 1], &[BOOLEAN, 1, 1])]))),
            (6, named(&[7], &element(SEQUENCE, &[&named(&[7, 4], &[BOOLEAN, 1, 0])]))),
            (6, named(&[7], &element(SEQUENCE, &[]))),
            (0, element(SEQUENCE, &[&element(OID, &[&SGX, &[1]]), &octet_string(&[0; 16]), &[5, 0]])),
        ];
        for (at, field) in bad {
            let mut all = fields();
            all[*at].clone_from(field);
            assert_eq!(code(read(&all)), "tdx_pck_malformed", "{}", hex::encode(field));
        }
        for svn in [
            &[INTEGER, 2, 0, 1][..],
            &[INTEGER, 1, 0x80],
            &[INTEGER, 2, 1, 0],
            &[INTEGER, 0],
            &[INTEGER, 3, 0, 0, 1],
        ] {
            let (mut tcb, mut all) = (tcb_fields(), fields());
            tcb[0] = named(&[2, 1], svn);
            all[1] = named(&[2], &element(SEQUENCE, &[&tcb.concat()]));
            assert_eq!(code(read(&all)), "tdx_pck_malformed", "{svn:?}");
        }
        let whole = element(SEQUENCE, &[&fields().concat()]);
        assert_eq!(code(Pck::from_extension(&[&whole[..], &[0]].concat())), "tdx_pck_malformed");
        assert_eq!(code(Pck::from_extension(&whole[..whole.len() - 1])), "tdx_pck_malformed");
    }

    #[test]
    fn components_that_differ_from_cpusvn_are_refused() {
        for at in 0..16 {
            let (mut tcb, mut all) = (tcb_fields(), fields());
            tcb[at] = named(&[2, u8::try_from(at + 1).unwrap()], &[INTEGER, 1, 0x7f]);
            all[1] = named(&[2], &element(SEQUENCE, &[&tcb.concat()]));
            assert_eq!(code(read(&all)), "tdx_pck_components_contradict", "{at}");
        }
    }
}
