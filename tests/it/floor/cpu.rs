//! Changes of SEV-SNP guest, chip and AMD's documents.

use claviger::sim::amd::Issuer;
use claviger::sim::{Tcb, VcekFields, x509};
use claviger::wire::Code::{self, *};

use super::{Case, all, denied, undecided};
use crate::support::{Change, Plan};

const NO_REPORT: &str =
    "a report that does not parse is no CPU evidence, commits to nothing, and is in no supported combination";
const DAY_S: i64 = 86_400;

/// Certifies the chip's key anew, with one field changed.
fn vcek(plan: &mut Plan, change: impl FnOnce(&mut VcekFields)) {
    let amd = &plan.vendors.amd;
    let mut fields = amd.vcek_fields(&plan.machine.cpu.chip);
    change(&mut fields);
    let der = amd.vcek(&plan.machine.cpu.chip, &fields).unwrap();
    sends(plan, vec![der]);
}

/// Lets the guest send these certificates, and nothing be at hand beside them.
fn sends(plan: &mut Plan, certificates: Vec<Vec<u8>>) {
    plan.sent_certificates = certificates;
    plan.given = Some(Box::new(|given| given.amd.veks.clear()));
}

/// Gives another revocation list.
fn crl(plan: &mut Plan, from: i64, until: i64, revoked: &'static [u32]) {
    let (amd, now) = (&plan.vendors.amd, plan.now);
    let der = amd.crl(now.plus(from), Some(now.plus(until)), 2, revoked).unwrap();
    plan.files = Some(Box::new(move |files| files.cpu.crl = der));
}

fn levels(plan: &Plan, change: impl FnOnce(&mut Tcb)) -> Option<[u8; 8]> {
    let mut tcb = plan.machine.cpu.chip.tcb;
    change(&mut tcb);
    Some(tcb.bytes(plan.vendors.amd.line))
}

const fn unread(name: &'static str, codes: &'static [Code; 4], change: Change) -> Case {
    all(name, codes, NO_REPORT, change)
}

pub const CASES: &[Case] = &[
    denied("debug", &[SnpDebug], |plan| plan.machine.cpu.snp.policy |= 1 << 19),
    denied("migration agent allowed", &[SnpMigration], |plan| plan.machine.cpu.snp.policy |= 1 << 18),
    denied("migration agent tied", &[SnpMigrationAgent], |plan| plan.machine.cpu.snp.report_id_ma = [7; 32]),
    denied("reserved policy bit", &[SnpGuestPolicyReserved], |plan| plan.machine.cpu.snp.policy |= 1 << 26),
    denied("policy bit 17 clear", &[SnpGuestPolicyReserved], |plan| {
        plan.machine.cpu.snp.policy &= !(1 << 17)
    }),
    denied("host asked", &[SnpHostRequested], |plan| plan.machine.cpu.snp.vmpl = u32::MAX),
    denied("VMPL 1", &[SnpVmplMismatch], |plan| plan.machine.cpu.snp.vmpl = 1),
    denied("VMPL 4", &[SnpVmplMismatch], |plan| plan.machine.cpu.snp.vmpl = 4),
    denied("VMPL 0 where the policy states 1", &[SnpVmplMismatch], |plan| {
        plan.policy_says("vmpl = 0", "vmpl = 1");
    }),
    denied("reported above committed", &[SnpTcbOrder], |plan| {
        let lower = levels(plan, |tcb| tcb.microcode -= 1);
        (plan.machine.cpu.snp.committed_tcb, plan.machine.cpu.snp.current_tcb) = (lower, lower);
    }),
    all(
        "committed above current",
        &[SnpTcbOrder, SnpProvisionalFirmware],
        "what is not in order is not equal either",
        |plan| plan.machine.cpu.snp.current_version = [39, 55, 1],
    ),
    denied("certificate of another TCB", &[SnpTcbMismatch], |plan| {
        plan.machine.cpu.snp.reported_tcb = levels(plan, |tcb| tcb.microcode -= 1);
    }),
    denied("chip id masked", &[SnpChipIdMasked], |plan| {
        let chip = hex::encode(plan.machine.cpu.chip.chip_id);
        plan.policy_says(&format!("chips = [\"{chip}\"]\n"), "");
        plan.machine.cpu.snp.chip_id = Some([0; 64]);
    }),
    denied("certificate of another chip", &[SnpChipMismatch], |plan| {
        let other = plan.vendors.amd.chip([9; 64], plan.machine.cpu.chip.tcb).unwrap();
        vcek(plan, |fields| fields.hwid = Some(other.hwid()));
    }),
    denied("chip key masked", &[SnpReportUnsigned], |plan| plan.machine.cpu.snp.key_info = 2),
    denied("nobody signed", &[SnpReportUnsigned], |plan| plan.machine.cpu.snp.key_info = 7 << 2),
    denied("reserved signing key", &[SnpSignerReserved], |plan| plan.machine.cpu.snp.key_info = 2 << 2),
    all(
        "VLEK with the certificate of a VCEK",
        &[SnpSignerMismatch, SnpVlekProviderNotListed, SnpNotChipBound],
        "a certificate that is no VLEK names no provider, none is on no list, and the policy lists chips",
        |plan| plan.machine.cpu.snp.key_info = 1 << 2,
    ),
    denied("one bit of the signature", &[SnpSignatureInvalid], |plan| {
        plan.report_given = Some(Box::new(|report| report[0x2a0] ^= 1));
    }),
    denied("certificate altered", &[SnpChainSignature], |plan| {
        plan.files = Some(Box::new(|files| *files.cpu.vek.last_mut().unwrap() ^= 1));
    }),
    denied("certificate by the root itself", &[SnpChainIssuer], |plan| {
        vcek(plan, |fields| fields.under = Issuer::Ark);
    }),
    denied("certificate of the root in the chain that is sent", &[SnpChainNotPinned], |plan| {
        plan.sent_certificates = vec![plan.vendors.nvidia.device_root_der().to_vec()];
    }),
    denied("certificate of another product", &[SnpProductMismatch], |plan| {
        vcek(plan, |fields| fields.product = "Milan-B0".to_string());
    }),
    denied("intermediate revoked", &[SnpCertificateRevoked], |plan| {
        crl(plan, -DAY_S, DAY_S, &[0x20001, 0x20002]);
    }),
    denied("intermediate revoked by a list that has ended", &[SnpCertificateRevoked], |plan| {
        crl(plan, -2 * DAY_S, -DAY_S, &[0x20002]);
        // The list of the vendor is at hand beside it, in its window.
        let (vendors, now) = (plan.vendors, plan.now);
        let files = plan.files.take().unwrap();
        plan.given = Some(Box::new(move |given| {
            let der = vendors.amd.crl(now.plus(-DAY_S), Some(now.plus(DAY_S)), 3, &[]).unwrap();
            given.amd.crls.push(claviger::endorse::Crl::from_bytes(&der));
        }));
        plan.files = Some(files);
    }),
    undecided("revocation list ended", &[SnpCrlStale], |plan| crl(plan, -2 * DAY_S, -1, &[])),
    undecided("revocation list not begun", &[SnpCrlNotYetValid], |plan| crl(plan, 1, DAY_S, &[])),
    denied("revocation list altered", &[SnpCrlSignature], |plan| {
        plan.files = Some(Box::new(|files| *files.cpu.crl.last_mut().unwrap() ^= 1));
    }),
    undecided("revocation list cut", &[SnpCrlMissing], |plan| {
        plan.files = Some(Box::new(|files| files.cpu.crl.truncate(200)));
    }),
    undecided("no revocation list", &[SnpCrlMissing], |plan| {
        plan.given = Some(Box::new(|given| given.amd.crls.clear()));
    }),
    undecided("no certificate of the chip", &[SnpVekMissing], |plan| {
        plan.given = Some(Box::new(|given| given.amd.veks.clear()));
    }),
    denied("certificate ended", &[CertificateExpired], |plan| {
        let now = plan.now;
        vcek(plan, |fields| fields.window.not_after = now.plus(-1));
    }),
    denied("certificate not begun", &[CertificateNotYetValid], |plan| {
        let now = plan.now;
        vcek(plan, |fields| fields.window.not_before = now.plus(301));
    }),
    denied("certificate cut", &[CertificateMalformed], |plan| {
        let mut cut = plan.machine.cpu.chip.vcek_der().to_vec();
        cut.truncate(300);
        sends(plan, vec![cut]);
    }),
    denied("too many certificates", &[SnpEndorsementsTooMany], |plan| {
        let own = plan.machine.cpu.chip.vcek_der().to_vec();
        sends(plan, vec![own; 5]);
    }),
    denied("certificate without hwID", &[SnpVekExtensionMissing], |plan| {
        vcek(plan, |fields| fields.hwid = None);
    }),
    denied("level of the certificate in another form", &[SnpVekExtensionEncoding], |plan| {
        vcek(plan, |fields| fields.replaced = vec![("3.8", vec![4, 1, 88])]);
    }),
    denied("unknown critical extension", &[SnpVekCriticalExtension], |plan| {
        vcek(plan, |fields| fields.extra = vec![x509::extension("1.2.3.4", true, &[5, 0])]);
    }),
    denied("VCEK and VLEK at once", &[SnpVekKind], |plan| {
        vcek(plan, |fields| fields.csp_id = Some("aws".to_string()));
    }),
    unread(
        "report empty",
        &[SnpReportLength, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.report_given = Some(Box::new(Vec::clear));
        },
    ),
    unread(
        "report with one byte more",
        &[SnpReportLength, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.report_given = Some(Box::new(|report| report.push(0)));
        },
    ),
    unread(
        "report version",
        &[SnpReportVersion, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.machine.cpu.snp.version = 6;
        },
    ),
    unread(
        "signature algorithm",
        &[SnpSignatureAlgorithm, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.machine.cpu.snp.signature_algo = 2;
        },
    ),
    unread(
        "reserved byte",
        &[SnpReservedNotZero, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.machine.cpu.snp.overwritten = vec![(0x4c, vec![1])];
        },
    ),
    unread(
        "unknown CPU",
        &[SnpProductUnknown, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.machine.cpu.snp.cpuid = Some([0x19, 0x50, 0]);
        },
    ),
    unread(
        "unknown generation",
        &[SnpGenerationUnknown, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.machine.cpu.snp.version = 2;
            plan.machine.cpu.snp.overwritten = vec![(0x3b, vec![1])];
        },
    ),
];
