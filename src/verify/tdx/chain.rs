//! The PCK chain of a quote: exactly leaf, CA and the pinned root.

use crate::endorse::pck::{PCK_CN, PLATFORM_CA_CN, PROCESSOR_CA_CN};
use crate::endorse::{self, Certificate};
use crate::verify::roots::Roots;
use crate::verify::signed::critical_are_known;
use crate::verify::warm::Warm;
use crate::verify::window::{NOT_BEFORE_LEEWAY_S, outside};
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Code, UnixSeconds, limits};

/// The three certificates as the quote carries them. Nothing is believed yet.
#[derive(Clone, Debug)]
pub struct Chain {
    pub leaf: Certificate,
    pub ca: Certificate,
    pub root: Certificate,
}

impl Chain {
    /// Reads the PEM text of a quote.
    ///
    /// Shape: exactly three blocks, leaf first.
    ///
    /// Errors: a failed `chain` that says what is wrong.
    pub fn read(text: &[u8]) -> Result<Self, Check> {
        let name = CheckName::Chain;
        let list = Certificate::list_from_pem(text, limits::TDX_QUOTE_LEN_MAX)
            .map_err(|error: endorse::Error| Check::fail(name, error.code()).actual(error.to_string()))?;
        let list: [Certificate; 3] = list.try_into().map_err(|list: Vec<Certificate>| {
            Check::fail(name, Code::TdxChainCount)
                .expected("3 certificates: PCK certificate, PCK CA, root")
                .actual(list.len().to_string())
        })?;
        let [leaf, ca, root] = list;
        Ok(Self { leaf, ca, root })
    }

    /// Verifies the chain: root equality, then what each certificate may be, then each link. A root of Intel's
    /// pre-production bears the same names, so nothing but equality counts.
    pub fn check(&self, roots: &Roots, warm: &Warm) -> Check {
        let name = CheckName::Chain;
        if self.root.der() != roots.intel.der() {
            return Check::fail(name, Code::TdxRootNotPinned)
                .expected(roots.intel.fingerprint().to_string())
                .actual(format!("{} {}", foreign(&self.root.subject_cn), self.root.fingerprint()));
        }
        if let Err((expected, certificate)) = self.rules() {
            return Check::fail(name, Code::TdxChainRules)
                .expected(expected)
                .actual(foreign(&certificate.subject_cn));
        }
        let links = [(&self.leaf, &self.ca), (&self.ca, &self.root), (&self.root, &self.root)];
        match links.into_iter().find(|(subject, issuer)| warm.certificate(subject, issuer).is_err()) {
            Some((subject, issuer)) => Check::fail(name, Code::TdxChainSignature).expected(format!(
                "{} signed by {}",
                foreign(&subject.subject_cn),
                foreign(&issuer.subject_cn)
            )),
            None => Check::pass(name),
        }
    }

    /// Judges the windows of the three.
    pub fn windows(&self, now: UnixSeconds) -> Check {
        let all = [(&self.leaf, NOT_BEFORE_LEEWAY_S), (&self.ca, 0), (&self.root, 0)];
        all.into_iter()
            .find_map(|(certificate, leeway_s)| outside(certificate, leeway_s, now))
            .unwrap_or(Check::pass(CheckName::Validity))
    }

    /// Says what a certificate must be and is not.
    fn rules(&self) -> Result<(), (&'static str, &Certificate)> {
        let Self { leaf, ca, root } = self;
        if let Some(unknown) =
            [leaf, ca, root].into_iter().find(|certificate| !critical_are_known(certificate))
        {
            return Err(("no critical extension beyond constraints and usage", unknown));
        }
        // Names add no security, since the keys do. They keep a certificate of another purpose under the same root from
        // standing where it does not belong.
        if leaf.subject_cn != PCK_CN {
            return Err((PCK_CN, leaf));
        }
        // Without constraints a certificate of version 3 is none of a CA; Intel's leaves say so.
        if !matches!(leaf.ca, Some((false, _))) {
            return Err(("a leaf that is no CA", leaf));
        }
        if !leaf.usage.is_some_and(|usage| usage.digital_signature && !usage.key_cert_sign) {
            return Err(("a leaf that may sign, and not certificates", leaf));
        }
        if ![PLATFORM_CA_CN, PROCESSOR_CA_CN].contains(&ca.subject_cn.as_str()) {
            return Err(("Intel SGX PCK Platform CA or Intel SGX PCK Processor CA", ca));
        }
        for (issuer, below) in [(ca, 0), (root, 1)] {
            let constrained =
                matches!(issuer.ca, Some((true, length)) if length.is_none_or(|max| max >= below));
            if !constrained || !issuer.usage.is_some_and(|usage| usage.key_cert_sign && usage.crl_sign) {
                return Err(("a CA that may sign certificates and lists", issuer));
            }
        }
        Ok(())
    }
}
