//! Changes of NVIDIA's documents and answers.

use claviger::sim::ocsp::{LIFETIME_S, OcspFields, OcspIssuer, OcspStatus, Responder};
use claviger::sim::rim::{RimKind, RimOptions, reference_values};
use claviger::wire::Code::*;
use claviger::wire::{UnixSeconds, Window};

use super::gpu::{named, replace};
use super::{Case, denied, undecided};
use crate::support::{Outcome, Plan, Verdict, judged};

const KEY_COMPROMISE: u8 = 1;
const HOLD: u8 = 6;
const YEAR_S: i64 = 365 * 86_400;

/// Gives another document for the driver.
fn driver(plan: &mut Plan, change: impl FnOnce(&mut RimOptions<'_>)) {
    let (id, version) = named(plan, RimKind::Driver);
    let mut options = RimOptions::default();
    change(&mut options);
    let values = reference_values(RimKind::Driver, &version);
    let text = plan.vendors.nvidia.rim(RimKind::Driver, &version, &values, &options).unwrap();
    replace(plan, id, text);
}

/// Gives a document whose signer has this window, and an answer that the signer is good.
fn signer(plan: &mut Plan, window: Window) {
    let nvidia = &plan.vendors.nvidia;
    let authority = nvidia.rim_signer(window).unwrap();
    let answer = nvidia.ocsp(&authority.der, OcspIssuer::RimL3, &OcspFields::good(plan.now)).unwrap();
    let (id, version) = named(plan, RimKind::Driver);
    let options = RimOptions { signer: Some(&authority), ..RimOptions::default() };
    let values = reference_values(RimKind::Driver, &version);
    let text = nvidia.rim(RimKind::Driver, &version, &values, &options).unwrap();
    plan.files = Some(Box::new(move |files| {
        files.rims.iter_mut().find(|(known, _)| *known == id).unwrap().1 = text;
        files.ocsp.push(("signer".to_string(), answer));
    }));
}

/// Answers anew for one certificate: `device-0-1` to `device-0-3`, or `rim-0` to `rim-2`.
fn answer(plan: &mut Plan, name: &'static str, change: impl FnOnce(&mut OcspFields)) {
    let nvidia = &plan.vendors.nvidia;
    let chain = &plan.machine.gpus[0].gpu.chain;
    let (subject, issuer) = match name {
        "device-0-1" => (&chain[1], OcspIssuer::Provisioner),
        "device-0-2" => (&chain[2], OcspIssuer::Identity),
        "device-0-3" => (&chain[3], OcspIssuer::DeviceRoot),
        "rim-0" => (&nvidia.rim_l4.der, OcspIssuer::RimL3),
        "rim-1" => (&nvidia.rim_l3.der, OcspIssuer::RimL2),
        "rim-2" => (&nvidia.rim_l2.der, OcspIssuer::RimRoot),
        other => panic!("{other}"),
    };
    let mut fields = OcspFields::good(plan.now);
    change(&mut fields);
    let der = nvidia.ocsp(subject, issuer, &fields).unwrap();
    put(plan, name, der);
}

fn put(plan: &mut Plan, name: &'static str, der: Vec<u8>) {
    plan.files = Some(Box::new(move |files| {
        files.ocsp.iter_mut().find(|(known, _)| known == name).unwrap().1 = der;
    }));
}

fn revoked(plan: &Plan, reason: u8) -> OcspStatus {
    OcspStatus::Revoked { at: plan.now.plus(-86_400), reason: Some(reason) }
}

fn status(plan: &mut Plan, name: &'static str, reason: u8) {
    let status = revoked(plan, reason);
    answer(plan, name, |fields| fields.status = status);
}

pub const CASES: &[Case] = &[
    undecided("no document for the driver", &[RimMissing], |plan| {
        plan.given = Some(Box::new(|given| {
            drop(given.nvidia.rims.remove(0));
        }));
    }),
    undecided("no document for the VBIOS", &[RimMissing], |plan| {
        plan.given = Some(Box::new(|given| {
            drop(given.nvidia.rims.remove(1));
        }));
    }),
    undecided("the document of another driver", &[RimMissing], |plan| {
        driver(plan, |options| options.signed_edits = vec![("580.82.07", "580.82.08")]);
    }),
    undecided("the document of another chip", &[RimMissing], |plan| driver(plan, |o| o.product = "GB100")),
    undecided("the document of a switch", &[RimMissing], |plan| driver(plan, |o| o.edition = "SWITCH")),
    undecided("the document of another manufacturer", &[RimMissing], |plan| {
        driver(plan, |options| options.signed_edits = vec![("\"5703\"", "\"5704\"")]);
    }),
    undecided("a document that does not parse", &[RimMissing], |plan| {
        driver(plan, |options| options.late_edits = vec![("active=\"True\"", "active=\"Yes\"")]);
    }),
    denied("a document altered after signing", &[RimDigestMismatch], |plan| {
        driver(plan, |options| options.late_edits = vec![("revision=\"r1\"", "revision=\"r2\"")]);
    }),
    denied("a document that another key signed", &[RimSignatureInvalid], |plan| {
        let nvidia = &plan.vendors.nvidia;
        let chain = [&nvidia.rim_l4, &nvidia.rim_l3, &nvidia.rim_l2, &nvidia.rim_root];
        driver(plan, |options| {
            options.signer = Some(&nvidia.provisioner);
            options.chain = Some(chain.iter().map(|authority| authority.der.clone()).collect());
        });
    }),
    denied("a document of another root", &[RimRootUnknown], |plan| {
        let nvidia = &plan.vendors.nvidia;
        let chain = [&nvidia.rim_l4, &nvidia.rim_l3, &nvidia.rim_l2, &nvidia.device_root];
        driver(plan, |options| {
            options.chain = Some(chain.iter().map(|authority| authority.der.clone()).collect());
        });
    }),
    denied("an authority in the place of the signer", &[RimChainInvalid], |plan| {
        let nvidia = &plan.vendors.nvidia;
        let chain = [&nvidia.rim_l3, &nvidia.rim_l2, &nvidia.rim_root, &nvidia.rim_root];
        driver(plan, |options| {
            options.signer = Some(&nvidia.rim_l3);
            options.chain = Some(chain.iter().map(|authority| authority.der.clone()).collect());
        });
    }),
    denied("a signer that has ended", &[RimSignerExpired], |plan| {
        let now = plan.now;
        signer(plan, Window { not_before: now.plus(-YEAR_S), not_after: now.plus(-1) });
    }),
    denied("a signer that has not begun", &[RimSignerNotYetValid], |plan| {
        let now = plan.now;
        signer(plan, Window { not_before: now.plus(1), not_after: now.plus(YEAR_S) });
    }),
    denied("a signer that is revoked", &[RimSignerRevoked], |plan| status(plan, "rim-0", KEY_COMPROMISE)),
    denied("a signer on hold", &[RimSignerOnHold], |plan| status(plan, "rim-0", HOLD)),
    denied("an authority of documents on hold", &[RimSignerOnHold], |plan| {
        accept_hold(plan, "2027-01-31T00:00:00Z");
        status(plan, "rim-1", HOLD);
    }),
    denied("a device that is revoked", &[GpuRevoked], |plan| status(plan, "device-0-1", KEY_COMPROMISE)),
    denied("an authority of devices that is revoked", &[GpuRevoked], |plan| {
        status(plan, "device-0-3", KEY_COMPROMISE);
    }),
    denied("a device on hold", &[GpuOnHold], |plan| status(plan, "device-0-1", HOLD)),
    denied("a device on hold where signers may be", &[GpuOnHold], |plan| {
        accept_hold(plan, "2027-01-31T00:00:00Z");
        status(plan, "device-0-1", HOLD);
    }),
    denied("a device that the responder does not know", &[OcspUnknownStatus], |plan| {
        answer(plan, "device-0-1", |fields| fields.status = OcspStatus::Unknown);
    }),
    undecided("an answer that has ended", &[OcspStale], |plan| {
        let now = plan.now;
        answer(plan, "device-0-1", |fields| {
            fields.this_update = now.plus(-LIFETIME_S - 1);
            fields.next_update = Some(now.plus(-1));
        });
    }),
    denied("an answer of another responder", &[OcspResponderInvalid], |plan| {
        answer(plan, "rim-1", |fields| fields.responder = Responder::Of(OcspIssuer::Identity));
    }),
    denied("an answer altered", &[OcspSignatureInvalid], |plan| {
        let nvidia = &plan.vendors.nvidia;
        let mut der =
            nvidia.ocsp(&nvidia.rim_l4.der, OcspIssuer::RimL3, &OcspFields::good(plan.now)).unwrap();
        // producedAt is signed and read by nobody: its last digit of seconds.
        let stamp = plan.now.to_string().replace(['-', ':', 'T'], "");
        let at = der.windows(15).position(|window| window == stamp.as_bytes()).unwrap();
        der[at + 13] ^= 1;
        put(plan, "rim-0", der);
    }),
    undecided("no answer for the device", &[OcspMissing], |plan| {
        plan.given = Some(Box::new(|given| {
            drop(given.nvidia.ocsp.remove(0));
        }));
    }),
    undecided("an answer for another certificate", &[OcspMissing], |plan| {
        answer(plan, "rim-0", |fields| fields.serial = Some(vec![0x11; 8]));
    }),
    undecided("an answer that does not parse", &[OcspMissing], |plan| {
        put(plan, "rim-0", claviger::sim::ocsp::unauthorized());
    }),
];

fn accept_hold(plan: &mut Plan, until: &str) {
    plan.policy_adds(&format!(
        "\n[[accept_risks]]\nid = \"rim-signer-on-hold\"\nby = \"A. Reviewer\"\nuntil = \"{until}\"\n"
    ));
}

#[test]
fn a_signer_on_hold_is_accepted_by_name_to_the_last_second_and_shown() {
    let with = |until: UnixSeconds| -> Verdict {
        let mut plan = Plan::in_order();
        accept_hold(&mut plan, &until.to_string());
        status(&mut plan, "rim-0", HOLD);
        judged(plan)
    };
    let now = Plan::in_order().now;
    let accepted = with(now);
    assert_eq!(accepted.outcome, Outcome::Granted, "{:?}", accepted.reasons);
    assert!(accepted.risks.contains(&"rim-signer-on-hold"));
    let expired = with(now.plus(-1));
    assert_eq!((expired.outcome, expired.codes()), (Outcome::Denied, vec![RimSignerOnHold]));
}

#[test]
fn an_acceptance_of_signers_on_hold_accepts_no_revoked_one() {
    let mut plan = Plan::in_order();
    accept_hold(&mut plan, "2027-01-31T00:00:00Z");
    status(&mut plan, "rim-0", KEY_COMPROMISE);
    assert_eq!(judged(plan).codes(), [RimSignerRevoked]);
}
