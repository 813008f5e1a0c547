//! Intel's collateral: which set speaks for a platform, whether Intel signed it, and what it revokes.
//!
//! Several sets for one FMSPC: those count that Intel signed, that are inside their windows, that are not below the
//! marks and whose lists are of the platform's CA. Of these the one of the latest recovery is used, then the one with
//! the newest items; which file it came in does not matter. What any set with good signatures revokes stays revoked.

use std::cmp::Reverse;
use std::sync::Arc;

use super::marks::{Heights, Marks, Reached};
use crate::endorse::collateral::{IssuerChain, SignedText};
use crate::endorse::pck::{PLATFORM_CA_CN, PROCESSOR_CA_CN, TCB_SIGNER_CN};
use crate::endorse::{self, Certificate, Collateral, Crl, Pck};
use crate::verify::signed::critical_are_known;
use crate::verify::warm::Warm;
use crate::wire::text::foreign;
use crate::wire::transcript::Transcript;
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds, Untrusted, Window, limits};

/// Collateral at hand. What did not parse stands here too: it was given, and refuses where it was picked.
#[derive(Clone, Debug, Default)]
pub struct IntelEndorsements {
    pub collateral: Vec<Result<Untrusted<Arc<Collateral>>, endorse::Error>>,
    /// What was already seen: an older set counts as rolled back. A service keeps its marks in the store and looks at
    /// them in the transaction that decides; here they are for those who have no store.
    pub marks: Marks,
    /// Whether somebody picked these for the quote in question (`claviger verify tdx --collateral F`). Then what is
    /// wrong with them refuses; in a collection it counts as not given.
    pub picked: bool,
}

impl IntelEndorsements {
    /// Parses the set that was picked for one quote; none counts as missing.
    pub fn picked(collateral: Option<&[u8]>) -> Self {
        let parse = |json| Collateral::parse(json).map(Arc::new).map(Untrusted::new);
        let collateral = collateral.map(parse).into_iter().collect();
        Self { collateral, marks: Marks::default(), picked: true }
    }

    fn sets(&self) -> impl Iterator<Item = &Arc<Collateral>> {
        self.collateral.iter().flatten().map(Untrusted::as_shown)
    }
}

/// The certificates of a platform that the collateral is held against.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'a> {
    pub leaf: &'a Certificate,
    pub ca: &'a Certificate,
    pub pck: &'a Pck,
}

/// The set that speaks for a platform, and what was found out with it.
#[derive(Debug)]
pub struct Found<'g> {
    /// `None` if none counts. A picked one is here although something is wrong with it, so that every check is made.
    pub set: Option<&'g Arc<Collateral>>,
    /// `identity`, `revocation` and `validity`; `tcb` only where it failed or stayed unknown, since a set by itself
    /// says nothing of the platform's level.
    pub checks: Checks,
    /// Whether every signature of the set is good.
    signed: bool,
    /// Whether nothing at all is wrong with the set.
    sound: bool,
}

impl Found<'_> {
    /// Tells whether the set may rate the platform: Intel signed all of it, and it is about this FMSPC and PCEID. What
    /// is outside its window still says what it said then, beside a `validity` that failed.
    pub(super) fn speaks(&self) -> bool {
        let about = |check: &Check| check.outcome == Outcome::Pass;
        self.signed && self.checks.named(CheckName::Identity).is_some_and(about)
    }

    /// Returns how new the set is, if nothing is wrong with it.
    pub(super) fn reached(&self) -> Option<Reached> {
        self.set.filter(|_| self.sound).map(|set| Reached::of(set))
    }
}

/// Finds the set for a platform and verifies it. Signatures are remembered by the digest of the set and the root;
/// windows, marks and revocation are judged each time.
///
/// `platform` is an error's code where the quote has no certificates to speak of.
pub fn look_up<'g>(
    root: &Certificate,
    warm: &Warm,
    given: &'g IntelEndorsements,
    now: UnixSeconds,
    platform: Result<Platform<'_>, Code>,
) -> Found<'g> {
    let mut checks = Checks::new();
    if given.picked {
        for error in given.collateral.iter().filter_map(|set| set.as_ref().err()) {
            checks.record(Check::fail(CheckName::Tcb, error.code()).actual(error.to_string()));
        }
    }
    let best = candidates(root, warm, given, now, platform.ok()).max_by(|a, b| a.rank().cmp(&b.rank()));
    let counts = |best: &&Candidate<'g>| given.picked || (platform.is_ok() && best.faults.list().is_empty());
    let set = best.as_ref().filter(counts).map(|best| best.set);
    let sound = platform.is_ok() && best.as_ref().is_some_and(|best| best.faults.list().is_empty());
    let signed = set.is_some_and(|set| signatures(root, warm, set).is_ok());
    revoked(root, warm, given, platform.ok(), set, &mut checks);
    let of_platform = [CheckName::Identity, CheckName::Revocation];
    match (set, platform) {
        (Some(set), Ok(_)) => {
            let fault =
                best.as_ref().and_then(|best| best.faults.list().first()).and_then(|fault| fault.code);
            best.into_iter().for_each(|best| checks.extend(best.faults));
            if let (false, Some(code)) = (signed, fault) {
                // Of a set of which one signature is bad nothing is taken: what does not refuse stays open.
                let open = of_platform.into_iter().chain([CheckName::Tcb]);
                open.for_each(|name| checks.record(Check::unknown(name, code)));
            }
            checks.extend(out_of_force(set, now));
            of_platform.into_iter().for_each(|name| checks.record(Check::pass(name)));
            checks.record(Check::pass(CheckName::Validity));
        }
        (Some(_), Err(code)) => {
            best.into_iter().for_each(|best| checks.extend(best.faults));
            checks.record(Check::pass(CheckName::Validity));
            let open = of_platform.into_iter().chain([CheckName::Tcb]);
            open.for_each(|name| checks.record(Check::unknown(name, code)));
        }
        (None, platform) => {
            // Everything that depends on a set is open for one reason: what is wrong with the best one, if any.
            let fault = best.as_ref().and_then(|best| best.faults.list().first());
            let open = |name| match (platform, fault) {
                (Err(code), _) => Check::unknown(name, code),
                (Ok(_), Some(fault)) => Check { name, outcome: Outcome::Unknown, ..fault.clone() },
                (Ok(Platform { pck, .. }), None) => Check::unknown(name, Code::TdxCollateralMissing)
                    .expected(format!("collateral for FMSPC {}", hex::encode(pck.fmspc))),
            };
            let names = of_platform.into_iter().chain([CheckName::Validity, CheckName::Tcb]);
            names.for_each(|name| checks.record(open(name)));
        }
    }
    Found { set, checks, signed, sound }
}

/// Returns what the sets in use have reached: for each FMSPC the one that counts, if any. Marks are raised from nothing
/// else.
pub fn reached(root: &Certificate, warm: &Warm, given: &IntelEndorsements, now: UnixSeconds) -> Vec<Reached> {
    let mut best: Vec<Candidate<'_>> = Vec::new();
    for candidate in candidates(root, warm, given, now, None) {
        if !candidate.faults.list().is_empty() {
            continue;
        }
        match best.iter_mut().find(|best| best.set.tcb_info.fmspc == candidate.set.tcb_info.fmspc) {
            Some(best) if best.rank() < candidate.rank() => *best = candidate,
            Some(_) => {}
            None => best.push(candidate),
        }
    }
    best.iter().map(|best| Reached::of(best.set)).collect()
}

/// A set with everything that speaks against it.
struct Candidate<'g> {
    set: &'g Arc<Collateral>,
    faults: Checks,
}

impl Candidate<'_> {
    /// The order in which sets are preferred; the digest makes it one order whatever file a set came in.
    fn rank(&self) -> impl Ord {
        (self.faults.list().is_empty(), Heights::of(self.set).rank(), *self.set.digest())
    }
}

/// Looks at the newest sets that are about the platform (at every one, where one was picked or no platform is asked
/// for).
fn candidates<'g>(
    root: &Certificate,
    warm: &Warm,
    given: &'g IntelEndorsements,
    now: UnixSeconds,
    platform: Option<Platform<'_>>,
) -> impl Iterator<Item = Candidate<'g>> {
    let about = move |set: &&Arc<Collateral>| {
        given.picked || platform.is_none_or(|platform| set.tcb_info.fmspc == platform.pck.fmspc)
    };
    // Without a platform each FMSPC has its sets.
    let count_max = if platform.is_some() { limits::COLLATERAL_SETS_MAX } else { usize::MAX };
    let mut sets: Vec<_> = given.sets().filter(about).collect();
    // What is beyond the bound is older than what is looked at, whatever file it came in.
    sets.sort_by_cached_key(|set| Reverse(Heights::of(set).rank()));
    sets.into_iter().take(count_max).map(move |set| {
        let mut faults = Checks::new();
        if let Err(wrong) = signatures(root, warm, set) {
            faults.extend(wrong);
        }
        windows(set, now).into_iter().for_each(|fault| faults.record(fault));
        rolled_back(set, &given.marks).into_iter().for_each(|fault| faults.record(fault));
        if let Some(platform) = platform {
            fits(set, platform).into_iter().for_each(|fault| faults.record(fault));
        }
        Candidate { set, faults }
    })
}

/// Verifies every signature of a set, once.
///
/// Errors: the failed checks.
fn signatures(root: &Certificate, warm: &Warm, set: &Collateral) -> Result<(), Checks> {
    let texts = once(root, warm, set, "claviger/v1/warm-collateral-texts", || {
        let (info, identity) = (&set.tcb_info_signed, &set.qe_identity_signed);
        [
            signed_text(root, warm, info, CheckName::Tcb, Code::TdxTcbInfoSignature),
            signed_text(root, warm, identity, CheckName::Identity, Code::TdxQeIdentitySignature),
        ]
    });
    match (texts, lists(root, warm, set)) {
        (Ok(()), lists) => lists,
        (texts, Ok(())) => texts,
        (Err(mut texts), Err(lists)) => {
            texts.extend(lists);
            Err(texts)
        }
    }
}

/// Verifies the signatures of both lists, once. They are believed whatever the texts beside them are.
///
/// Errors: the failed checks.
fn lists(root: &Certificate, warm: &Warm, set: &Collateral) -> Result<(), Checks> {
    once(root, warm, set, "claviger/v1/warm-collateral-lists", || {
        [root_list(root, warm, set), pck_list(root, warm, set)]
    })
}

/// Makes two checks of a set unless both came out well before.
fn once(
    root: &Certificate,
    warm: &Warm,
    set: &Collateral,
    label: &str,
    make: impl FnOnce() -> [Result<(), Check>; 2],
) -> Result<(), Checks> {
    let digest = Transcript::new(label).field(set.digest().bytes()).field(root.der()).sha256();
    warm.once(digest, || {
        let mut faults = Checks::new();
        make().into_iter().filter_map(Result::err).for_each(|fault| faults.record(fault));
        if faults.list().is_empty() { Ok(()) } else { Err(faults) }
    })
}

/// Verifies that the chain is exactly Intel's TCB signer under the pinned root. The root is known by its bytes and the
/// signer by its issuer: it was renewed under the same serial, so that neither serial nor certificate is a name for it.
fn signed_text(
    root: &Certificate,
    warm: &Warm,
    text: &SignedText,
    name: CheckName,
    code: Code,
) -> Result<(), Check> {
    let IssuerChain { signer, root: top } = &text.chain;
    let wrong = |expected: &str, certificate: &Certificate| {
        Check::fail(name, Code::TdxTcbSigner).expected(expected).actual(format!(
            "{}, SHA-256 {}",
            foreign(&certificate.subject_cn),
            certificate.fingerprint()
        ))
    };
    if top.der() != root.der() {
        return Err(wrong("the pinned root above the signer", top));
    }
    let may_sign = signer.subject_cn == TCB_SIGNER_CN
        && !matches!(signer.ca, Some((true, _)))
        && signer.usage.is_some_and(|usage| usage.digital_signature && !usage.key_cert_sign)
        && critical_are_known(signer);
    if !may_sign {
        return Err(wrong("the certificate of Intel's TCB signer", signer));
    }
    if warm.certificate(signer, root).is_err() {
        return Err(wrong("a signer signed by the pinned root", signer));
    }
    warm.fixed_p256(&signer.key, &text.text, &text.signature).map_err(|_| {
        Check::fail(name, code).expected(format!("a text signed by {}", foreign(&signer.subject_cn)))
    })
}

fn root_list(root: &Certificate, warm: &Warm, set: &Collateral) -> Result<(), Check> {
    let list = &set.root_crl;
    let signed = list.issuer() == root.subject
        && warm.signature(&root.key, list.algorithm(), list.tbs(), list.signature()).is_ok();
    match signed {
        true => Ok(()),
        false => Err(Check::fail(CheckName::Revocation, Code::TdxRootCrlSignature)
            .expected(format!("a list signed by {}", foreign(&root.subject_cn)))
            .actual(described(list))),
    }
}

fn pck_list(root: &Certificate, warm: &Warm, set: &Collateral) -> Result<(), Check> {
    let (list, IssuerChain { signer: ca, root: top }) = (&set.pck_crl, &set.pck_crl_chain);
    let name = CheckName::Revocation;
    let may_sign = [PLATFORM_CA_CN, PROCESSOR_CA_CN].contains(&ca.subject_cn.as_str())
        && matches!(ca.ca, Some((true, _)))
        && ca.usage.is_some_and(|usage| usage.crl_sign)
        && critical_are_known(ca);
    if top.der() != root.der() || !may_sign || warm.certificate(ca, root).is_err() {
        return Err(Check::fail(name, Code::TdxPckCrlSignature)
            .expected("a PCK CA under the pinned root above the list")
            .actual(format!("{}, SHA-256 {}", foreign(&ca.subject_cn), ca.fingerprint())));
    }
    if list.issuer() != ca.subject {
        return Err(Check::fail(name, Code::TdxPckCrlIssuer)
            .expected(format!("a list of {}", foreign(&ca.subject_cn)))
            .actual(described(list)));
    }
    warm.signature(&ca.key, list.algorithm(), list.tbs(), list.signature()).map_err(|_| {
        Check::fail(name, Code::TdxPckCrlSignature)
            .expected(format!("a list signed by {}", foreign(&ca.subject_cn)))
            .actual(described(list))
    })
}

/// Judges each item's window together with those of the certificates above it; gives what is outside.
fn windows(set: &Collateral, now: UnixSeconds) -> Vec<Check> {
    let chain = |chain: &IssuerChain| chain.signer.window.and(chain.root.window);
    let items = [
        (
            "TCB info",
            set.tcb_info.window.and(chain(&set.tcb_info_signed.chain)),
            Code::TdxTcbInfoNotYetValid,
            Code::TdxTcbInfoExpired,
        ),
        (
            "QE identity",
            set.qe_identity.window.and(chain(&set.qe_identity_signed.chain)),
            Code::TdxQeIdentityNotYetValid,
            Code::TdxQeIdentityExpired,
        ),
        (
            "PCK revocation list",
            set.pck_crl.window().and(chain(&set.pck_crl_chain)),
            Code::TdxPckCrlNotYetValid,
            Code::TdxPckCrlStale,
        ),
        (
            "root revocation list",
            set.root_crl.window().and(set.pck_crl_chain.root.window),
            Code::TdxRootCrlNotYetValid,
            Code::TdxRootCrlStale,
        ),
    ];
    items
        .into_iter()
        .filter_map(|(item, window, early, late)| outside(item, window, early, late, now))
        .collect()
}

/// A list outside its window does not say that something is not revoked.
fn out_of_force(set: &Collateral, now: UnixSeconds) -> Checks {
    let lists = [
        Code::TdxPckCrlNotYetValid,
        Code::TdxPckCrlStale,
        Code::TdxRootCrlNotYetValid,
        Code::TdxRootCrlStale,
    ];
    let mut checks = Checks::new();
    for code in windows(set, now).into_iter().filter_map(|fault| fault.code) {
        if lists.contains(&code) {
            checks.record(Check::unknown(CheckName::Revocation, code));
        }
    }
    checks
}

fn outside(item: &str, window: Window, early: Code, late: Code, now: UnixSeconds) -> Option<Check> {
    let fail = |code| Check::fail(CheckName::Validity, code).expected(format!("{item} from {window}"));
    // An empty window is outside at both ends; what has ended tells more.
    if now > window.not_after {
        let after_s = now.since(window.not_after);
        return Some(fail(late).actual(format!("{now}; {after_s} s after the end")));
    }
    (now < window.not_before).then(|| {
        let behind_s = window.not_before.since(now);
        fail(early).actual(format!("{now}; the local clock appears {behind_s} s behind"))
    })
}

fn rolled_back(set: &Collateral, marks: &Marks) -> Option<Check> {
    let mark = marks.of(&set.tcb_info.fmspc)?;
    let heights = Heights::of(set);
    let item = heights.below(mark)?;
    let told = |heights: &Heights| {
        let Heights { tcb_info, qe_identity, pck_crl, root_crl } = heights;
        format!(
            "TCB info {} of {}, QE identity {} of {}, lists of {pck_crl} and {root_crl}",
            tcb_info.evaluation, tcb_info.issued, qe_identity.evaluation, qe_identity.issued
        )
    };
    Some(
        Check::fail(CheckName::Validity, Code::TdxCollateralRolledBack)
            .expected(format!("at least {}", told(mark)))
            .actual(format!("an older {item}: {}", told(&heights))),
    )
}

/// Compares the set with the platform: FMSPC, PCEID, and the CA whose certificates the list is about.
fn fits(set: &Collateral, platform: Platform<'_>) -> Vec<Check> {
    let Platform { leaf, ca, pck } = platform;
    let info = &set.tcb_info;
    let mut faults = Vec::new();
    if info.fmspc != pck.fmspc {
        faults.push(
            Check::fail(CheckName::Identity, Code::TdxFmspcMismatch)
                .expected(hex::encode(pck.fmspc))
                .actual(hex::encode(info.fmspc)),
        );
    }
    if info.pceid != pck.pceid {
        faults.push(
            Check::fail(CheckName::Identity, Code::TdxPceidMismatch)
                .expected(hex::encode(pck.pceid))
                .actual(hex::encode(info.pceid)),
        );
    }
    // Two CAs of one name would each have a list of its own, so the key counts too.
    if set.pck_crl.issuer() != leaf.issuer || set.pck_crl_chain.signer.key != ca.key {
        faults.push(
            Check::fail(CheckName::Revocation, Code::TdxPckCrlIssuer)
                .expected(format!("a list of {}, SHA-256 {}", foreign(&leaf.issuer_cn), ca.fingerprint()))
                .actual(format!(
                    "a list of {}, SHA-256 {}",
                    foreign(&set.pck_crl_chain.signer.subject_cn),
                    set.pck_crl_chain.signer.fingerprint()
                )),
        );
    }
    faults
}

/// Looks the certificates up in every list whose signature is good, in or out of its window: a revocation is not taken
/// back.
fn revoked(
    root: &Certificate,
    warm: &Warm,
    given: &IntelEndorsements,
    platform: Option<Platform<'_>>,
    chosen: Option<&Arc<Collateral>>,
    checks: &mut Checks,
) {
    let mut used: Vec<(&Certificate, Code)> = vec![(root, Code::TdxRootRevoked)];
    if let Some(Platform { leaf, ca, .. }) = platform {
        used.extend([(ca, Code::TdxPckCaRevoked), (leaf, Code::TdxPckRevoked)]);
    }
    if let Some(set) = chosen {
        used.extend([
            (&set.pck_crl_chain.signer, Code::TdxPckCaRevoked),
            (&set.tcb_info_signed.chain.signer, Code::TdxTcbSignerRevoked),
            (&set.qe_identity_signed.chain.signer, Code::TdxTcbSignerRevoked),
        ]);
    }
    for set in given.sets() {
        for (certificate, code) in &used {
            // Whether a list names it is found out first: its signature costs more, and is asked for only then.
            let list = if set.root_crl.names(certificate) && root_list(root, warm, set).is_ok() {
                &set.root_crl
            } else if set.pck_crl.names(certificate) && pck_list(root, warm, set).is_ok() {
                &set.pck_crl
            } else {
                continue;
            };
            checks.record(
                Check::fail(CheckName::Revocation, *code)
                    .expected("no certificate named in a revocation list")
                    .actual(format!(
                        "{} with serial {} stands in {}",
                        foreign(&certificate.subject_cn),
                        hex::encode(&certificate.serial),
                        described(list)
                    )),
            );
        }
    }
}

fn described(list: &Crl) -> String {
    format!("the list of {}, SHA-256 {}", list.window().not_before, list.fingerprint())
}
