//! The floor of the CPU: what a confidential guest must never be.

use crate::policy::reason::Reason;
use crate::verify::Subject;
use crate::verify::terms::{SnpFields, TdReport};
use crate::wire::Code;

/// Lists what no policy can lift about a report. `vmpl` is what the policy states; without a policy it is 0.
///
/// Source: AMD 56860, Guest Policy Structure and ATTESTATION_REPORT.
pub fn snp(report: &SnpFields, vmpl: Option<u8>) -> Vec<Reason> {
    let reason = |code| Reason::new(Subject::Cpu, code);
    let mut reasons = Vec::new();
    if report.policy.debug() {
        reasons.push(reason(Code::SnpDebug).expected("DEBUG 0").actual(report.policy));
    }
    if report.policy.migrate_ma() {
        reasons.push(reason(Code::SnpMigration).expected("MIGRATE_MA 0").actual(report.policy));
    }
    if report.has_migration_agent() {
        reasons.push(reason(Code::SnpMigrationAgent).expected("all 0xff").actual(report.report_id_ma));
    }
    if !report.policy.reserved_one() || report.policy.reserved() != 0 {
        let expected = "bit 17 set, bits 63 to 26 clear";
        reasons.push(reason(Code::SnpGuestPolicyReserved).expected(expected).actual(report.policy));
    }
    let expected = u32::from(vmpl.unwrap_or(0));
    if report.host_requested() {
        reasons.push(reason(Code::SnpHostRequested).expected(expected).actual(report.vmpl));
    } else if report.vmpl != expected {
        reasons.push(reason(Code::SnpVmplMismatch).expected(expected).actual(report.vmpl));
    }
    // A certificate can only be asked for a TCB that was reported; what lies above it must have grown in this order.
    let tcb_ordered = report.committed_tcb.is_at_least(&report.reported_tcb)
        && report.current_tcb.is_at_least(&report.committed_tcb);
    if !tcb_ordered || report.current_version < report.committed_version {
        reasons.push(
            reason(Code::SnpTcbOrder)
                .expected("reported <= committed <= current in each component")
                .actual(tcbs(report)),
        );
    }
    reasons
}

/// Lists what no policy can lift about a TD: attributes under which nobody trusts one.
///
/// Source: Intel TDX Module ABI Specification, table ATTRIBUTES; the profiling bits stand in one group with DEBUG.
pub fn tdx(report: &TdReport) -> Vec<Reason> {
    let attributes = report.attributes;
    let rules = [
        (attributes.debug(), Code::TdxDebug, "DEBUG 0"),
        (attributes.profiling() != 0, Code::TdxProfiling, "bits 4 to 6 clear"),
        (attributes.migratable(), Code::TdxMigratable, "MIGRATABLE 0"),
        (!attributes.sept_ve_disable(), Code::TdxSeptVeDisableClear, "SEPT_VE_DISABLE 1"),
        (attributes.tpa(), Code::TdxProvisioningAgent, "TPA 0"),
        (attributes.reserved() != 0, Code::TdxAttributesReserved, "reserved bits clear"),
    ];
    rules
        .into_iter()
        .filter(|(broken, _, _)| *broken)
        .map(|(_, code, expected)| Reason::new(Subject::Cpu, code).expected(expected).actual(attributes))
        .collect()
}

/// Writes all four TCBs: which one a rule means is often what people mix up.
pub(in crate::policy) fn tcbs(report: &SnpFields) -> String {
    let SnpFields { reported_tcb, committed_tcb, current_tcb, launch_tcb, .. } = report;
    format!(
        "reported ({reported_tcb}), committed ({committed_tcb}), current ({current_tcb}), launch ({launch_tcb})"
    )
}
