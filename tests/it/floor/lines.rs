//! Milan, Turin and keys of cloud providers.

use std::sync::OnceLock;

use claviger::endorse::Certificate;
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

/// Lets a key of the provider `CN=cloud.example` sign the report, which names the chip all the same.
pub fn sign_by_provider(plan: &mut Plan) {
    let (amd, chip) = (&plan.vendors.amd, &plan.machine.cpu.chip);
    let fields = amd.vlek_fields(chip, "CN=cloud.example");
    let asvk = Certificate::from_der(&amd.asvk().unwrap().der).unwrap();
    // A VLEK names no chip: nothing of a collection is known to be of it, and the guest sends its own.
    plan.sent_certificates = vec![amd.vcek(chip, &fields).unwrap()];
    plan.machine.cpu.snp.key_info = 1 << 2;
    plan.roots = Some(Box::new(|roots| roots.amd[0].asvk = Some(asvk)));
}

/// A guest whose report a provider's key signed; `rules` stands in the place of the policy's list of chips.
fn by_vlek(rules: &str, change: impl FnOnce(&mut Plan)) -> Verdict {
    let mut plan = Plan::in_order();
    sign_by_provider(&mut plan);
    let chip = hex::encode(plan.machine.cpu.chip.chip_id);
    plan.policy_says(&format!("chips = [\"{chip}\"]\n"), rules);
    change(&mut plan);
    judged(plan)
}

const LISTED: &str = "vlek_providers = [\"CN=cloud.example\"]\n";

#[test]
fn a_providers_key_counts_only_where_the_policy_lists_the_provider() {
    let refused = by_vlek("", |_| {});
    assert_eq!((refused.outcome, refused.codes()), (Outcome::Denied, vec![SnpVlekProviderNotListed]));
    // The whole name counts, and nothing like it.
    for other in ["CN=other.example", "CN=cloud.exampl", "CN=cloud.example2", "cn=cloud.example"] {
        let refused = by_vlek(&format!("vlek_providers = [\"{other}\"]\n"), |_| {});
        assert_eq!(refused.codes(), [SnpVlekProviderNotListed], "{other}");
    }
    let granted = by_vlek(LISTED, |_| {});
    assert_eq!(granted.outcome, Outcome::Granted, "{:?}", granted.reasons);
    assert!(granted.risks.contains(&"vlek-names-no-chip"));
    let chips_own = judged(Plan::in_order());
    assert!(!chips_own.risks.contains(&"vlek-names-no-chip"));
}

#[test]
fn a_providers_key_is_bound_to_no_chip_whatever_its_report_names() {
    for masked in [false, true] {
        let mask = |plan: &mut Plan| {
            if masked {
                plan.machine.cpu.snp.chip_id = Some([0; 64]);
            }
        };
        let granted = by_vlek(LISTED, mask);
        assert_eq!(granted.outcome, Outcome::Granted, "{masked}: {:?}", granted.reasons);
        // Under a list of chips even the listed one is refused: any machine with that key could have named it.
        let mut plan = Plan::in_order();
        sign_by_provider(&mut plan);
        plan.policy_says("vmpl = 0", &format!("vmpl = 0\n{LISTED}"));
        mask(&mut plan);
        let refused = judged(plan);
        assert_eq!((refused.outcome, refused.codes()), (Outcome::Denied, vec![SnpNotChipBound]), "{masked}");
        let shown = refused.reasons[0].actual.as_deref();
        assert_eq!(shown, Some("a report signed by a VLEK"));
    }
}

#[test]
fn a_providers_key_needs_its_own_issuer_window_and_level() {
    let vlek = |plan: &mut Plan, change: &dyn Fn(&mut claviger::sim::VcekFields)| {
        let (amd, chip) = (&plan.vendors.amd, &plan.machine.cpu.chip);
        let mut fields = amd.vlek_fields(chip, "CN=cloud.example");
        change(&mut fields);
        plan.sent_certificates = vec![amd.vcek(chip, &fields).unwrap()];
    };
    let now = Plan::in_order().now;
    let with =
        |change: &dyn Fn(&mut claviger::sim::VcekFields)| by_vlek(LISTED, |plan| vlek(plan, change)).codes();
    assert_eq!(with(&|fields| fields.under = Issuer::Ask), [SnpChainIssuer], "the ASK certifies chips alone");
    assert_eq!(with(&|fields| fields.under = Issuer::Ark), [SnpChainIssuer]);
    assert_eq!(with(&|fields| fields.window.not_after = now), []);
    assert_eq!(with(&|fields| fields.window.not_after = now.plus(-1)), [CertificateExpired]);
    assert_eq!(with(&|fields| fields.tcb.microcode -= 1), [SnpTcbMismatch]);
    assert_eq!(with(&|fields| fields.product = "Milan".to_string()), [SnpProductMismatch]);
    // One that names a chip too is neither kind; it is read as no provider's.
    assert_eq!(with(&|fields| fields.hwid = Some(vec![7; 64])), [SnpVekKind, SnpVlekProviderNotListed]);
    // The issuer of providers' keys certifies no chip.
    let mut plan = Plan::in_order();
    let amd = &plan.vendors.amd;
    let mut fields = amd.vcek_fields(&plan.machine.cpu.chip);
    fields.under = Issuer::Asvk;
    plan.sent_certificates = vec![amd.vcek(&plan.machine.cpu.chip, &fields).unwrap()];
    plan.given = Some(Box::new(|given| given.amd.veks.clear()));
    assert_eq!(judged(plan).codes(), [SnpChainIssuer]);
}

#[test]
fn of_both_keys_the_one_counts_that_the_report_names() {
    for by_provider in [false, true] {
        for reversed in [false, true] {
            let mut plan = Plan::in_order();
            let vcek = plan.machine.cpu.chip.vcek_der().to_vec();
            if by_provider {
                let chip = hex::encode(plan.machine.cpu.chip.chip_id);
                plan.policy_says(&format!("chips = [\"{chip}\"]\n"), LISTED);
            }
            sign_by_provider(&mut plan);
            plan.machine.cpu.snp.key_info = u32::from(by_provider) << 2;
            // As a host's table gives them: both keys, both intermediates, the root.
            let amd = &plan.vendors.amd;
            plan.sent_certificates.push(vcek);
            plan.sent_certificates.extend([
                amd.ask_der().to_vec(),
                amd.asvk().unwrap().der.clone(),
                amd.ark_der().to_vec(),
            ]);
            if reversed {
                plan.sent_certificates.reverse();
            }
            let verdict = judged(plan);
            assert_eq!(verdict.outcome, Outcome::Granted, "{by_provider} {reversed}: {:?}", verdict.reasons);
            assert_eq!(verdict.risks.contains(&"vlek-names-no-chip"), by_provider);
        }
    }
}

#[test]
fn a_floor_is_about_the_reported_tcb_and_its_refusal_shows_all_four() {
    let with_floor = |microcode: u8| {
        let mut plan = Plan::in_order();
        let level = |microcode| Some(Tcb { microcode, ..Tcb::default() }.bytes(Line::Genoa));
        let snp = &mut plan.machine.cpu.snp;
        (snp.committed_tcb, snp.current_tcb, snp.launch_tcb) = (level(90), level(91), level(89));
        plan.policy_says("vmpl = 0", "vmpl = 0\nallow_provisional_firmware = true");
        let launch = "launch = { boot_loader = 10, tee = 0, snp = 28, microcode = 84 }";
        plan.policy_says("microcode = 84 }", &format!("microcode = {microcode} }}\n{launch}"));
        judged(plan)
    };
    // The host runs 91; what it reports, and what its key is derived for, is 88.
    assert_eq!(with_floor(88).outcome, Outcome::Granted);
    for above in [89, 91] {
        let refused = with_floor(above);
        assert_eq!((refused.outcome, refused.codes()), (Outcome::Denied, vec![SnpTcbBelowFloor]), "{above}");
        let shown = refused.reasons[0].actual.as_deref().unwrap();
        let levels = |microcode: u8| format!("(boot loader 10, tee 0, snp 28, microcode {microcode})");
        for (name, microcode) in [("reported", 88), ("committed", 90), ("current", 91), ("launch", 89)] {
            assert!(shown.contains(&format!("{name} {}", levels(microcode))), "{shown}");
        }
    }
}

#[test]
fn a_privilege_level_is_the_stated_one_and_shown_as_it_stands() {
    for (stated, shown, code) in [
        (0, 1, Some(SnpVmplMismatch)),
        (0, 3, Some(SnpVmplMismatch)),
        (0, 4, Some(SnpVmplMismatch)),
        (0, u32::MAX, Some(SnpHostRequested)),
        (3, 3, None),
        (3, 0, Some(SnpVmplMismatch)),
        (3, 4, Some(SnpVmplMismatch)),
        (3, u32::MAX, Some(SnpHostRequested)),
    ] {
        let mut plan = Plan::in_order();
        plan.policy_says("vmpl = 0", &format!("vmpl = {stated}"));
        plan.machine.cpu.snp.vmpl = shown;
        let verdict = judged(plan);
        assert_eq!(verdict.codes(), Vec::from_iter(code), "{stated} {shown}");
        if code.is_some() {
            assert_eq!(verdict.reasons[0].actual.as_deref(), Some(shown.to_string().as_str()));
        }
    }
}

#[test]
fn a_list_that_names_serial_zero_names_no_chip() {
    // Every VCEK has serial 0; a list of the root names what the root issued.
    let mut plan = Plan::in_order();
    let (amd, now) = (&plan.vendors.amd, plan.now);
    let list = amd.crl(now.plus(-60), Some(now.plus(60)), 2, &[0]).unwrap();
    plan.files = Some(Box::new(move |files| files.cpu.crl = list));
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
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
