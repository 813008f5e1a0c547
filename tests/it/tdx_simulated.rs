//! Every fault of a simulated TDX guest, one at a time: exactly the checks that it breaks fail, each with its code.

use claviger::evidence::tdx::Quote;
use claviger::policy::view::TdxView;
use claviger::policy::{Appraisal, Status, appraise_tdx_default};
use claviger::sim::Vendors;
use claviger::sim::intel::fault::{CollateralFault, Fault, Item, PlatformFault, QuoteFault, TdFault, When};
use claviger::sim::intel::{CollateralPart, PlatformTcb, QuoteForm, QuotePart, TdxGuest};
use claviger::verify::tdx::{IntelEndorsements, Tdx, assess};
use claviger::verify::verdict::{Verdict, most_telling};
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::{CheckName, Code, Outcome, crypto};

/// What must come out of a guest with one fault.
enum Says {
    /// Authentic, and nothing speaks against it.
    Accepted,
    /// Authentic, and not acceptable for these reasons.
    Contraindicated(Vec<Code>),
    /// These checks fail, the most telling first; no other.
    Refused(Vec<(CheckName, Code)>),
}

fn refused(name: CheckName, code: Code) -> Says {
    Says::Refused(vec![(name, code)])
}

fn contraindicated(code: Code) -> Says {
    Says::Contraindicated(vec![code])
}

fn roots(vendors: &Vendors) -> Roots {
    let mut roots = Roots::pinned().unwrap();
    roots.intel = claviger::endorse::Certificate::from_der(vendors.intel.root_der()).unwrap();
    roots
}

fn judged(vendors: &Vendors, guest: &TdxGuest) -> (Part<Tdx>, Appraisal) {
    let quote = guest.quote([7; 64]).unwrap();
    let files = guest.files(&vendors.intel).unwrap();
    let given = IntelEndorsements::picked(Some(&files.collateral));
    let part =
        assess(&roots(vendors), &Warm::new(), &given, vendors.now, Some(&[7; 64]), Quote::parse(&quote));
    let appraisal = match part.shown() {
        Some(tdx) => appraise_tdx_default(&TdxView::of(tdx), part.checks(), vendors.now),
        None => Appraisal::none(),
    };
    (part, appraisal)
}

fn of_status(status: &str, in_component: bool) -> Says {
    match status {
        "ConfigurationAndSWHardeningNeeded" => contraindicated(Code::TdxTcbConfigurationAndSwHardeningNeeded),
        "ConfigurationNeeded" => contraindicated(Code::TdxTcbConfigurationNeeded),
        "OutOfDate" => contraindicated(Code::TdxTcbOutOfDate),
        "OutOfDateConfigurationNeeded" => contraindicated(Code::TdxTcbOutOfDateConfigurationNeeded),
        "Revoked" => refused(CheckName::Tcb, Code::TdxTcbRevoked),
        "SWHardeningNeeded" if !in_component => contraindicated(Code::TdxTcbSwHardeningNeeded),
        other => panic!("{other} is no status"),
    }
}

fn of_collateral(fault: CollateralFault) -> Says {
    use CheckName::{Identity, Revocation, Tcb, Validity};
    let (name, code) = match fault {
        CollateralFault::Dated(item, when) => (
            Validity,
            match (item, when) {
                (Item::PckList, When::Past) => Code::TdxPckCrlStale,
                (Item::PckList, When::Future) => Code::TdxPckCrlNotYetValid,
                (Item::QeIdentity, When::Past) => Code::TdxQeIdentityExpired,
                (Item::QeIdentity, When::Future) => Code::TdxQeIdentityNotYetValid,
                (Item::RootList, When::Past) => Code::TdxRootCrlStale,
                (Item::RootList, When::Future) => Code::TdxRootCrlNotYetValid,
                (Item::TcbInfo | Item::TcbSigner, When::Past) => Code::TdxTcbInfoExpired,
                (Item::TcbInfo | Item::TcbSigner, When::Future) => Code::TdxTcbInfoNotYetValid,
            },
        ),
        CollateralFault::EvaluationOlder => return Says::Accepted,
        CollateralFault::Forged(part) => match part {
            CollateralPart::PckList => (Revocation, Code::TdxPckCrlSignature),
            CollateralPart::QeIdentity => (Identity, Code::TdxQeIdentitySignature),
            CollateralPart::RootList => (Revocation, Code::TdxRootCrlSignature),
            CollateralPart::TcbInfo => (Tcb, Code::TdxTcbInfoSignature),
            // One certificate signs both.
            CollateralPart::TcbSigner => {
                return Says::Refused(vec![(Identity, Code::TdxTcbSigner), (Tcb, Code::TdxTcbSigner)]);
            }
        },
        CollateralFault::FmspcOther => (Identity, Code::TdxFmspcMismatch),
        CollateralFault::ModuleAbsent => (Identity, Code::TdxModuleUnknown),
        CollateralFault::ModuleStatus(status) | CollateralFault::QeStatus(status) => {
            return of_status(status, true);
        }
        CollateralFault::PceidOther => (Identity, Code::TdxPceidMismatch),
        CollateralFault::PckListOther => (Revocation, Code::TdxPckCrlIssuer),
        CollateralFault::PckRevoked => (Revocation, Code::TdxPckRevoked),
        CollateralFault::PlatformCaRevoked => (Revocation, Code::TdxPckCaRevoked),
        CollateralFault::PlatformStatus(status) => return of_status(status, false),
        // It does not parse as one, so that there is no set.
        CollateralFault::QeIdentityOfSgx => (Tcb, Code::TdxQeIdentityKind),
        CollateralFault::RootRevoked => (Revocation, Code::TdxRootRevoked),
        CollateralFault::TcbInfoOfSgx => (Tcb, Code::TdxTcbInfoKind),
        CollateralFault::TcbSignerRevoked => (Revocation, Code::TdxTcbSignerRevoked),
    };
    refused(name, code)
}

fn of_platform(fault: PlatformFault) -> Says {
    use CheckName::{Chain, Identity, Revocation, Signature, Tcb, Validity};
    let (name, code) = match fault {
        // The root stands where the leaf should: it did not sign the enclave's report, is of no platform, and its
        // list is that of no PCK CA.
        PlatformFault::ChainLeafLast => {
            return Says::Refused(vec![
                (Chain, Code::TdxRootNotPinned),
                (Identity, Code::TdxPckMalformed),
                (Signature, Code::TdxQeSignatureInvalid),
            ]);
        }
        PlatformFault::ChainLong => (Chain, Code::TdxChainCount),
        // The other CA has the same name and another key, with which nobody signed the list.
        PlatformFault::ChainOtherRoot => {
            return Says::Refused(vec![(Chain, Code::TdxRootNotPinned), (Revocation, Code::TdxPckCrlIssuer)]);
        }
        PlatformFault::ComponentsDiffer => (Identity, Code::TdxPckComponentsContradict),
        PlatformFault::FmspcAbsent => (Identity, Code::TdxPckMalformed),
        PlatformFault::Older => return contraindicated(Code::TdxTcbOutOfDate),
        PlatformFault::PckForged => (Chain, Code::TdxChainSignature),
        PlatformFault::PckExpired => (Validity, Code::CertificateExpired),
        PlatformFault::PckNotYet => (Validity, Code::CertificateNotYetValid),
        PlatformFault::PckSubject => (Chain, Code::TdxChainRules),
        // And no list of the root's is about platforms.
        PlatformFault::PckUnderRoot => {
            return Says::Refused(vec![
                (Chain, Code::TdxChainSignature),
                (Revocation, Code::TdxPckCrlIssuer),
            ]);
        }
        PlatformFault::Unsupported => (Tcb, Code::TdxTcbNotSupported),
    };
    refused(name, code)
}

fn of_quote(fault: QuoteFault) -> Says {
    use CheckName::{Format, Identity, Signature, Tcb};
    let (name, code) = match fault {
        QuoteFault::Altered(part) => (
            Signature,
            match part {
                QuotePart::AttestationKey | QuotePart::Signature => Code::TdxSignatureInvalid,
                // Its last byte, which is one of the report data.
                QuotePart::QeAuthentication | QuotePart::QeReport => Code::TdxQeBinding,
                QuotePart::QeSignature => Code::TdxQeSignatureInvalid,
            },
        ),
        QuoteFault::AttestationKeyUnbound => (Signature, Code::TdxQeBinding),
        QuoteFault::BodySize => (Format, Code::TdxQuoteMalformed),
        QuoteFault::ChainEnd => (Format, Code::TdxChainTail),
        QuoteFault::InnerType(_) => (Format, Code::TdxCertificationInner),
        QuoteFault::KeyType => (Format, Code::TdxKeyP384),
        QuoteFault::OuterType(_) => (Format, Code::TdxCertificationOuter),
        QuoteFault::Padding => (Format, Code::TdxPaddingNotZero),
        QuoteFault::QeAttributes
        | QuoteFault::QeMiscSelect
        | QuoteFault::QeProduct
        | QuoteFault::QeSigner => (Identity, Code::TdxQeMismatch),
        QuoteFault::QeDebug => (Identity, Code::TdxQeDebug),
        QuoteFault::QeUnsupported => (Tcb, Code::TdxQeTcbNotSupported),
        QuoteFault::TeeType | QuoteFault::Version => (Format, Code::TdxQuoteOfSgx),
        QuoteFault::VendorId => (Format, Code::TdxVendor),
    };
    refused(name, code)
}

fn of_td(fault: TdFault) -> Says {
    use CheckName::{Identity, Tcb};
    match fault {
        TdFault::Attribute(0) => contraindicated(Code::TdxDebug),
        TdFault::Attribute(4..=6) => contraindicated(Code::TdxProfiling),
        TdFault::Attribute(17 | 18..=22 | 31 | 63) => contraindicated(Code::TdxAttributeNotAllowed),
        TdFault::Attribute(28) => contraindicated(Code::TdxSeptVeDisableClear),
        TdFault::Attribute(29) => contraindicated(Code::TdxMigratable),
        TdFault::Attribute(62) => contraindicated(Code::TdxProvisioningAgent),
        TdFault::Attribute(_) => contraindicated(Code::TdxAttributesReserved),
        TdFault::ModuleSigner => refused(Identity, Code::TdxModuleSignerMismatch),
        TdFault::ModuleUnsupported => refused(Tcb, Code::TdxModuleTcbNotSupported),
        TdFault::ModuleVersion => refused(Identity, Code::TdxModuleUnknown),
        TdFault::Relaunch => contraindicated(Code::TdxTcbRelaunchAdvised),
        TdFault::SeamAttributes => refused(Identity, Code::TdxModuleAttributesMismatch),
        TdFault::ServiceTd => contraindicated(Code::TdxServiceTd),
        TdFault::TdxComponent => refused(Tcb, Code::TdxTcbNotSupported),
        TdFault::Xfam(_) => contraindicated(Code::TdxXfamNotAllowed),
    }
}

fn says(fault: Fault) -> Says {
    match fault {
        Fault::Collateral(fault) => of_collateral(fault),
        // What a log shows is no matter of the quote.
        Fault::Log(_) => Says::Accepted,
        Fault::Platform(fault) => of_platform(fault),
        Fault::Quote(fault) => of_quote(fault),
        Fault::Td(fault) => of_td(fault),
    }
}

/// Lists what came out otherwise than it must.
fn differences(says: &Says, part: &Part<Tdx>, appraisal: &Appraisal) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, expected: String, found: String| {
        if expected != found {
            wrong.push(format!("{what}: expected {expected}; found {found}"));
        }
    };
    let checks = part.checks();
    let failed: Vec<(CheckName, Option<Code>)> = checks
        .with(Outcome::Fail)
        .filter(|check| !check.name.is_appraisal())
        .map(|check| (check.name, check.code))
        .collect();
    let sorted = |mut list: Vec<(CheckName, Option<Code>)>| {
        list.sort_unstable();
        format!("{list:?}")
    };
    let (verdict, status, authentic) = match says {
        Says::Accepted => (Verdict::Verified, Some(Status::Affirming), true),
        Says::Contraindicated(_) => (Verdict::Verified, Some(Status::Contraindicated), true),
        Says::Refused(_) => (Verdict::Refused, None, false),
    };
    let expected = match says {
        Says::Accepted | Says::Contraindicated(_) => Vec::new(),
        Says::Refused(list) => list.iter().map(|(name, code)| (*name, Some(*code))).collect(),
    };
    same("verdict", format!("{verdict:?}"), format!("{:?}", Verdict::of(checks)));
    same("authentic", authentic.to_string(), part.is_authentic().to_string());
    same("failed", sorted(expected.clone()), sorted(failed));
    if let Some((_, code)) = expected.first() {
        same("most telling", format!("{code:?}"), format!("{:?}", most_telling(checks)));
    }
    if let Some(status) = status {
        same("appraisal", format!("{status:?}"), format!("{:?}", appraisal.status()));
    }
    if let Says::Contraindicated(codes) = says {
        same("reasons", format!("{codes:?}"), format!("{:?}", appraisal.codes()));
    }
    wrong
}

#[test]
fn each_fault_breaks_exactly_its_own_checks() {
    let vendors = Vendors::shared().unwrap();
    let all = Fault::all();
    let mut wrong = Vec::new();
    for fault in &all {
        let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
        fault.apply(&vendors.intel, &mut guest, vendors.now).unwrap();
        let (part, appraisal) = judged(vendors, &guest);
        let found = differences(&says(*fault), &part, &appraisal);
        if !found.is_empty() {
            wrong.push(format!("{fault:?}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(all.len() > 90, "{}", all.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn a_guest_in_order_is_authentic_and_affirmed_in_every_form_of_a_quote() {
    let vendors = Vendors::shared().unwrap();
    for form in [QuoteForm::V4, QuoteForm::V5Td10, QuoteForm::V5Td15, QuoteForm::V5Extended] {
        let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
        guest.quote.form = form;
        let (part, appraisal) = judged(vendors, &guest);
        assert!(part.checks().all_pass(), "{form:?}: {:?}", part.checks());
        assert_eq!(appraisal.status(), Status::Affirming, "{form:?}");
        assert_eq!(part.shown().unwrap().pck.as_ref().unwrap().ppid, guest.platform.ppid);
    }
}

#[test]
fn a_new_platform_costs_three_p256_verifications_under_warm_collateral_and_a_known_one_two() {
    let vendors = Vendors::shared().unwrap();
    let (roots, warm) = (roots(vendors), Warm::new());
    let first = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
    let given = IntelEndorsements::picked(Some(&first.files(&vendors.intel).unwrap().collateral));
    let cost = |guest: &TdxGuest| {
        let quote = Quote::parse(&guest.quote([1; 64]).unwrap());
        let before = crypto::verifications();
        let part = assess(&roots, &warm, &given, vendors.now, None, quote);
        let after = crypto::verifications();
        assert!(part.is_authentic(), "{:?}", part.checks());
        assert_eq!((after.ecdsa_p384, after.rsa_pss), (before.ecdsa_p384, before.rsa_pss));
        after.ecdsa_p256 - before.ecdsa_p256
    };
    // Root, root list, TCB signer, TCB info, QE identity, PCK CA, PCK list; leaf, QE report, quote.
    assert!(cost(&first) <= 10);
    for _ in 0..3 {
        assert_eq!(cost(&first), 2);
        let other = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
        assert_eq!(cost(&other), 3);
    }
}

/// Judges a guest as `judged` does, at another time; gives the codes of what failed.
fn failed_at(
    vendors: &Vendors,
    guest: &TdxGuest,
    now: claviger::wire::UnixSeconds,
) -> Vec<(CheckName, Code)> {
    let quote = guest.quote([7; 64]).unwrap();
    let given = IntelEndorsements::picked(Some(&guest.files(&vendors.intel).unwrap().collateral));
    let part = assess(&roots(vendors), &Warm::new(), &given, now, None, Quote::parse(&quote));
    let failed: Vec<_> =
        part.checks().with(Outcome::Fail).map(|check| (check.name, check.code.unwrap())).collect();
    assert_eq!(failed.is_empty(), part.is_authentic());
    failed
}

/// No age of our own stands between a list and its next update.
#[test]
fn a_list_counts_on_each_day_until_its_next_update_and_not_a_second_longer() {
    const DAY_S: i64 = 86_400;
    let vendors = Vendors::shared().unwrap();
    let now = vendors.now;
    let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
    let collateral = &mut guest.collateral;
    (collateral.tcb_info.next_update, collateral.qe_identity.next_update) =
        (now.plus(60 * DAY_S), now.plus(60 * DAY_S));
    (collateral.pck_list.this_update, collateral.pck_list.next_update) =
        (now.plus(-8 * DAY_S), Some(now.plus(22 * DAY_S)));
    for day in 0..=22 {
        assert_eq!(failed_at(vendors, &guest, now.plus(day * DAY_S)), [], "day {day}");
    }
    let stale = [(CheckName::Validity, Code::TdxPckCrlStale)];
    for after_s in [1, DAY_S] {
        assert_eq!(failed_at(vendors, &guest, now.plus(22 * DAY_S + after_s)), stale);
    }
}

/// A platform that was certified a moment ago is no reason to doubt it; a clock that is far off is.
#[test]
fn a_certificate_issued_now_counts_for_a_clock_that_is_a_little_behind() {
    let vendors = Vendors::shared().unwrap();
    let now = vendors.now;
    let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
    let mut fields = vendors.intel.pck_fields(&guest.platform).unwrap();
    fields.window.not_before = now;
    guest.platform.chain[0] = vendors.intel.pck(&guest.platform, &fields).unwrap();
    for behind_s in [0, 5, 300] {
        assert_eq!(failed_at(vendors, &guest, now.plus(-behind_s)), [], "{behind_s}");
    }
    for behind_s in [301, 600] {
        let expected = [(CheckName::Validity, Code::CertificateNotYetValid)];
        assert_eq!(failed_at(vendors, &guest, now.plus(-behind_s)), expected, "{behind_s}");
    }
    // Three days ahead, it still holds; an end has no leeway.
    assert_eq!(failed_at(vendors, &guest, now.plus(3 * 86_400)), []);
    fields.window.not_after = now.plus(60);
    guest.platform.chain[0] = vendors.intel.pck(&guest.platform, &fields).unwrap();
    assert_eq!(failed_at(vendors, &guest, now.plus(60)), []);
    let expired = [(CheckName::Validity, Code::CertificateExpired)];
    assert_eq!(failed_at(vendors, &guest, now.plus(61)), expired);
}
