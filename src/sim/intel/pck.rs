//! What a PCK certificate says: Intel's SGX extension.

use crate::sim::der;
use crate::sim::x509;
use crate::wire::Window;

/// Prefix of Intel's SGX extension.
const OID_SGX: &str = "1.2.840.113741.1.13.1";

/// Which authority signs a PCK certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PckIssuer {
    Platform,
    /// The CA of client processors, whose certificates have neither instance id nor configuration.
    Processor,
    /// The root itself, which is wrong.
    Root,
}

/// What a PCK certificate says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct PckFields {
    /// Big-endian.
    pub serial: Vec<u8>,
    pub common_name: String,
    pub window: Window,
    pub ppid: [u8; 16],
    /// The component integers `.2.1` to `.2.16`.
    pub components: [u8; 16],
    pub pcesvn: u16,
    /// The bytes of `.2.18`; Intel's are equal to the components.
    pub cpu_svn: [u8; 16],
    pub pceid: [u8; 2],
    pub fmspc: [u8; 6],
    /// 0 standard, 1 scalable, 2 scalable with integrity.
    pub sgx_type: u8,
    pub instance_id: Option<[u8; 16]>,
    /// Dynamic platform, cached keys, SMT enabled.
    pub configuration: Option<[bool; 3]>,
    /// Parts of the extension left out, by suffix after Intel's prefix, such as `4` or `2.18`.
    pub omitted: Vec<&'static str>,
    /// Parts of the extension whose encoded value is replaced, by suffix.
    pub replaced: Vec<(&'static str, Vec<u8>)>,
    /// DER of further extensions of the certificate, at the end.
    pub extra: Vec<Vec<u8>>,
    pub under: PckIssuer,
}

impl PckFields {
    /// Writes the SGX extension.
    pub fn extension(&self) -> Vec<u8> {
        let boolean = |yes: bool| if yes { der::yes() } else { der::tlv(0x01, &[0]) };
        let mut tcb: Vec<(String, Vec<u8>)> = self
            .components
            .iter()
            .zip(1..)
            .map(|(svn, number)| (format!("2.{number}"), der::number(u64::from(*svn))))
            .collect();
        tcb.push(("2.17".to_string(), der::number(u64::from(self.pcesvn))));
        tcb.push(("2.18".to_string(), der::octets(&self.cpu_svn)));
        let mut parts = vec![
            ("1".to_string(), der::octets(&self.ppid)),
            ("2".to_string(), self.sequence(tcb)),
            ("3".to_string(), der::octets(&self.pceid)),
            ("4".to_string(), der::octets(&self.fmspc)),
            ("5".to_string(), der::enumerated(self.sgx_type)),
        ];
        parts.extend(self.instance_id.map(|id| ("6".to_string(), der::octets(&id))));
        parts.extend(self.configuration.map(|switches| {
            let numbered = switches.iter().zip(1..);
            let switches = numbered.map(|(yes, number)| (format!("7.{number}"), boolean(*yes))).collect();
            ("7".to_string(), self.sequence(switches))
        }));
        x509::extension(OID_SGX, false, &self.sequence(parts))
    }

    fn sequence(&self, parts: Vec<(String, Vec<u8>)>) -> Vec<u8> {
        let encoded: Vec<u8> = parts
            .into_iter()
            .filter(|(suffix, _)| !self.omitted.contains(&suffix.as_str()))
            .flat_map(|(suffix, value)| {
                let replaced = self.replaced.iter().find(|(replaced, _)| *replaced == suffix);
                let value = replaced.map_or(value, |(_, other)| other.clone());
                der::sequence(&[&der::oid(&format!("{OID_SGX}.{suffix}")), &value])
            })
            .collect();
        der::tlv(0x30, &encoded)
    }
}
