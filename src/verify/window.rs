//! Windows of certificates in the chains of CPUs.

use crate::endorse::Certificate;
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Code, UnixSeconds};

/// Seconds by which the verifier's clock may be behind the beginning of a platform's certificate (VCEK, VLEK, PCK):
/// vendors issue them when they are asked for, without backdating. Nothing above a leaf has a leeway, and no end has.
pub const NOT_BEFORE_LEEWAY_S: i64 = 300;

/// Judges one window; `None` is inside.
pub fn outside(certificate: &Certificate, not_before_leeway_s: i64, now: UnixSeconds) -> Option<Check> {
    let window = certificate.window;
    let fail = |code| {
        Check::fail(CheckName::Validity, code)
            .expected(format!("{} from {window}", foreign(&certificate.subject_cn)))
    };
    if now.plus(not_before_leeway_s) < window.not_before {
        let behind_s = window.not_before.since(now);
        let actual = format!("{now}; the local clock appears {behind_s} s behind");
        return Some(fail(Code::CertificateNotYetValid).actual(actual));
    }
    if now > window.not_after {
        let after_s = now.since(window.not_after);
        let actual = format!("{now}; {after_s} s after the end, unless the local clock is ahead");
        return Some(fail(Code::CertificateExpired).actual(actual));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leeway_is_for_the_beginning_alone() {
        let certificate = Certificate::from_der(include_bytes!("../../certs/amd-ask-genoa.der")).unwrap();
        let (begin, end) = (certificate.window.not_before, certificate.window.not_after);
        let code = |leeway_s, now| outside(&certificate, leeway_s, now).and_then(|check| check.code);
        assert_eq!(code(0, begin), None);
        assert_eq!(code(0, begin.plus(-1)), Some(Code::CertificateNotYetValid));
        assert_eq!(code(NOT_BEFORE_LEEWAY_S, begin.plus(-300)), None);
        assert_eq!(code(NOT_BEFORE_LEEWAY_S, begin.plus(-301)), Some(Code::CertificateNotYetValid));
        assert_eq!(code(NOT_BEFORE_LEEWAY_S, end), None);
        assert_eq!(code(NOT_BEFORE_LEEWAY_S, end.plus(1)), Some(Code::CertificateExpired));
    }
}
