//! Milan, Turin and keys of cloud providers.

use std::sync::OnceLock;

use claviger::sim::amd::Issuer;
use claviger::sim::{Line, Tcb, Vendors};
use claviger::wire::Code::*;
use claviger::wire::UnixSeconds;

use crate::support::{Outcome, Plan, Verdict, judged};

const GENOA_TCB: &str = "[[cpu.snp.tcb]]\nline = \"genoa\"\nmodels = [0x11]\n\
    reported = { boot_loader = 10, tee = 0, snp = 28, microcode = 84 }\n";

fn milan() -> &'static Vendors {
    static MILAN: OnceLock<Vendors> = OnceLock::new();
    MILAN.get_or_init(|| Vendors::of_line(Line::Milan, Vendors::shared().unwrap().now).unwrap())
}

/// A guest on Milan under a policy that lists the line, with or without an acceptance of its risk.
fn on_milan(until: Option<UnixSeconds>) -> Verdict {
    let mut plan = Plan::of(milan());
    let floor = "[[cpu.snp.tcb]]\nline = \"milan\"\nmodels = [0x01]\n\
        reported = { boot_loader = 0, tee = 0, snp = 24, microcode = 80 }\n";
    plan.policy_says(GENOA_TCB, floor);
    plan.policy_says("lines = [\"genoa\"]", "lines = [\"milan\"]");
    if let Some(until) = until {
        plan.policy_adds(&format!(
            "\n[[accept_risks]]\nid = \"milan-root-extraction\"\nby = \"A. Reviewer\"\nuntil = \"{until}\"\n"
        ));
    }
    judged(plan)
}

#[test]
fn milan_is_refused_unless_its_risk_is_accepted_by_name_and_date() {
    let now = milan().now;
    let refused = on_milan(None);
    assert_eq!((refused.outcome, refused.codes()), (Outcome::Denied, vec![MilanNotAccepted]));
    let accepted = on_milan(Some(now));
    assert_eq!(accepted.outcome, Outcome::Granted, "{:?}", accepted.reasons);
    assert!(accepted.risks.contains(&"milan-root-extraction"));
    let expired = on_milan(Some(now.plus(-1)));
    assert_eq!((expired.outcome, expired.codes()), (Outcome::Denied, vec![RiskAcceptanceExpired]));
}

/// A guest whose report a provider's key signed; `providers` is what the policy lists.
fn by_vlek(providers: &str) -> Verdict {
    let mut plan = Plan::in_order();
    let amd = &plan.vendors.amd;
    let mut fields = amd.vcek_fields(&plan.machine.cpu.chip);
    fields.common_name = "SEV-VLEK".to_string();
    fields.hwid = None;
    fields.csp_id = Some("Example Cloud".to_string());
    fields.under = Issuer::Ask;
    fields.product = "Genoa".to_string();
    // A VLEK names no chip: nothing of a collection is known to be of it, and the guest sends its own.
    plan.sent_certificates = vec![amd.vcek(&plan.machine.cpu.chip, &fields).unwrap()];
    plan.machine.cpu.snp.key_info = 1 << 2;
    plan.roots = Some(Box::new(|roots| roots.amd[0].asvk = Some(roots.amd[0].ask.clone())));
    let chip = hex::encode(plan.machine.cpu.chip.chip_id);
    plan.policy_says(&format!("chips = [\"{chip}\"]\n"), providers);
    judged(plan)
}

#[test]
fn a_providers_key_counts_only_where_the_policy_lists_the_provider() {
    let refused = by_vlek("");
    assert_eq!((refused.outcome, refused.codes()), (Outcome::Denied, vec![SnpVlekProviderNotListed]));
    let other = by_vlek("vlek_providers = [\"Other Cloud\"]\n");
    assert_eq!(other.codes(), [SnpVlekProviderNotListed]);
    let granted = by_vlek("vlek_providers = [\"Example Cloud\"]\n");
    assert_eq!(granted.outcome, Outcome::Granted, "{:?}", granted.reasons);
    assert!(granted.risks.contains(&"vlek-names-no-chip"));
}

#[test]
fn a_chip_of_lower_tcb_is_refused_however_its_report_is_dressed() {
    // The chip's own key is of its TCB: a report that claims more has no certificate.
    let mut plan = Plan::in_order();
    let old = Tcb { snp: 22, ..Tcb::default() };
    plan.machine.cpu.chip = plan.vendors.amd.chip(plan.machine.cpu.chip.chip_id, old).unwrap();
    let claimed = Tcb::default().bytes(Line::Genoa);
    let snp = &mut plan.machine.cpu.snp;
    (snp.reported_tcb, snp.committed_tcb, snp.current_tcb) = (Some(claimed), Some(claimed), Some(claimed));
    snp.launch_tcb = Some(claimed);
    assert_eq!(judged(plan).codes(), [SnpTcbMismatch]);
}
