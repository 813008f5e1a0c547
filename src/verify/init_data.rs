//! Init data: whether the document that was sent is the one that the guest was launched with.

use super::claims::Cpu;
use super::part::Part;
use crate::protocol::init_data::InitData;
use crate::protocol::message::CpuEvidence;
use crate::wire::{Check, CheckName, Code, Digest, crypto};

/// The field in which a CPU signs the digest of init data. The host wrote it at the launch, and nobody changes it
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    HostData(Digest<32>),
    MrConfigId(Digest<48>),
}

impl Register {
    fn of(cpu: &Cpu) -> Self {
        match cpu {
            Cpu::Snp(snp) => Self::HostData(snp.report.host_data),
            Cpu::Tdx(tdx) => Self::MrConfigId(tdx.quote.report.mr_config_id),
        }
    }

    /// Compares a document with the register; with the digest that it should hold where it does not.
    fn holds(&self, init_data: &InitData) -> Result<(), String> {
        let (equal, digest) = match self {
            Self::HostData(own) => {
                let digest = init_data.register::<32>();
                (crypto::equal(own.bytes(), digest.bytes()), digest.to_string())
            }
            Self::MrConfigId(own) => {
                let digest = init_data.register::<48>();
                (crypto::equal(own.bytes(), digest.bytes()), digest.to_string())
            }
        };
        match equal {
            true => Ok(()),
            false => Err(digest),
        }
    }
}

impl std::fmt::Display for Register {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HostData(own) => write!(f, "HOST_DATA {own}"),
            Self::MrConfigId(own) => write!(f, "MRCONFIGID {own}"),
        }
    }
}

/// What became of the init data that came with CPU evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launched {
    /// None was sent.
    Absent,
    /// It does not parse, or is not what the guest was launched with: nothing in it is believed.
    Refused(Code),
    /// It is what the guest was launched with. The host chose it: whether it is the tenant's is a policy's to say.
    With(Box<InitData>),
}

impl Launched {
    /// Compares what was sent with the register; with the check, `None` where nothing was sent.
    ///
    /// The check says no more of the register than the signature over it does.
    pub fn of(sent: Option<&[u8]>, register: Register) -> (Self, Option<Check>) {
        let Some(sent) = sent else { return (Self::Absent, None) };
        let init_data = match InitData::parse(sent) {
            Ok(init_data) => init_data,
            Err(error) => return Self::refused(error.code(), |check| check.actual(error.to_string())),
        };
        match register.holds(&init_data) {
            Ok(()) => (Self::With(Box::new(init_data)), Some(Check::pass(CheckName::InitData))),
            Err(digest) => Self::refused(Code::InitDataMismatch, |check| {
                check.expected(register.to_string()).actual(digest)
            }),
        }
    }

    fn refused(code: Code, said: impl FnOnce(Check) -> Check) -> (Self, Option<Check>) {
        (Self::Refused(code), Some(said(Check::fail(CheckName::InitData, code))))
    }

    /// Adds to CPU evidence the init data that came with it. Evidence that did not parse has no register to compare.
    pub(super) fn beside(part: Part<Cpu>, sent: &CpuEvidence) -> (Part<Cpu>, Self) {
        let Some(cpu) = part.shown() else { return (part, Self::Absent) };
        let sent = sent.init_data.as_ref().map(|sent| sent.0.as_slice());
        match Self::of(sent, Register::of(cpu)) {
            (launched, Some(check)) => (part.also(check), launched),
            (launched, None) => (part, launched),
        }
    }

    /// Returns the document, if it is what the guest was launched with.
    pub fn document(&self) -> Option<&InitData> {
        match self {
            Self::With(init_data) => Some(init_data),
            Self::Absent | Self::Refused(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Outcome;

    const DOCUMENT: &[u8] = b"version = '0.1.0'\nalgorithm = 'sha384'\n[data]\na = 'b'\n";

    fn registers() -> [Register; 2] {
        let init_data = InitData::parse(DOCUMENT).unwrap();
        [Register::HostData(init_data.register()), Register::MrConfigId(init_data.register())]
    }

    #[test]
    fn the_document_of_the_launch_passes_in_both_families() {
        for register in registers() {
            let (launched, check) = Launched::of(Some(DOCUMENT), register);
            assert_eq!(launched.document().unwrap().register::<48>().bytes()[..32], {
                let Register::HostData(host_data) = registers()[0] else { panic!() };
                *host_data.bytes()
            });
            assert_eq!(check, Some(Check::pass(CheckName::InitData)));
        }
    }

    #[test]
    fn one_other_byte_is_another_document() {
        let mut other = DOCUMENT.to_vec();
        other.push(b'\n');
        for register in registers() {
            let (launched, check) = Launched::of(Some(&other), register);
            assert_eq!(launched, Launched::Refused(Code::InitDataMismatch));
            let check = check.unwrap();
            assert_eq!((check.outcome, check.code), (Outcome::Fail, Some(Code::InitDataMismatch)));
            assert_eq!(check.expected, Some(register.to_string()));
            assert_ne!(check.actual, None);
        }
    }

    #[test]
    fn a_register_that_was_never_set_holds_no_document() {
        for register in [Register::HostData(Digest::new([0; 32])), Register::MrConfigId(Digest::new([0; 48]))]
        {
            let (launched, _) = Launched::of(Some(DOCUMENT), register);
            assert_eq!(launched, Launched::Refused(Code::InitDataMismatch));
        }
    }

    #[test]
    fn what_does_not_parse_is_refused_even_under_its_own_digest() {
        let bytes = b"not init data";
        let (launched, check) = Launched::of(Some(bytes), Register::HostData(crypto::sha256(&[bytes])));
        assert_eq!(launched, Launched::Refused(Code::InitDataMalformed));
        assert_eq!(check.unwrap().code, Some(Code::InitDataMalformed));
    }

    #[test]
    fn nothing_sent_is_no_failure_and_no_document() {
        for register in registers() {
            assert_eq!(Launched::of(None, register), (Launched::Absent, None));
        }
        assert_eq!(Launched::Absent.document(), None);
    }
}
