//! The TCB of a platform: Intel's tables whole, and levels in any order.

use super::*;

const T: TcbStatus = TcbStatus::UpToDate;
const SW: TcbStatus = TcbStatus::SwHardeningNeeded;
const C: TcbStatus = TcbStatus::ConfigurationNeeded;
const CSW: TcbStatus = TcbStatus::ConfigurationAndSwHardeningNeeded;
const O: TcbStatus = TcbStatus::OutOfDate;
const OC: TcbStatus = TcbStatus::OutOfDateConfigurationNeeded;
const R: TcbStatus = TcbStatus::Revoked;
const A: TcbStatus = TcbStatus::TdRelaunchAdvised;
const AC: TcbStatus = TcbStatus::TdRelaunchAdvisedConfigurationNeeded;

/// What a level can say.
const LEVELS: [TcbStatus; 7] = [T, SW, C, CSW, O, OC, R];

fn day(day: i64) -> UnixSeconds {
    UnixSeconds::new(day * 86_400).unwrap()
}

fn component(isvsvn: u16, status: ComponentStatus, date: UnixSeconds, advisory: &str) -> ComponentLevel {
    ComponentLevel { isvsvn, date, status, advisories: vec![advisory.to_string()] }
}

fn platform(sgx: [u8; 16], pcesvn: u16, tdx: [u8; 16], status: TcbStatus) -> PlatformLevel {
    PlatformLevel { sgx, pcesvn, tdx, date: day(30), status, advisories: vec!["P".to_string()] }
}

fn svns(first: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..first.len()].copy_from_slice(first);
    all
}

fn module() -> Module {
    Module { mrsigner: Digest::new([0; 48]), attributes: [0; 8], attributes_mask: [0xff; 8] }
}

/// Components 4 4, PCESVN 11, TDX components 5 0 4; module version 1 at ISVSVN 5; QE at ISVSVN 4.
fn info(status: TcbStatus, of_module: ComponentStatus) -> TcbInfo {
    TcbInfo {
        window: crate::wire::Window { not_before: day(0), not_after: day(90) },
        fmspc: [1; 6],
        pceid: [0; 2],
        evaluation: 20,
        module: module(),
        modules: vec![crate::endorse::tcb_info::ModuleIdentity {
            version: 1,
            module: module(),
            levels: vec![component(5, of_module, day(20), "M")],
        }],
        levels: vec![platform(svns(&[4, 4]), 11, svns(&[5, 0, 4]), status)],
    }
}

fn identity(status: ComponentStatus) -> QeIdentity {
    QeIdentity {
        window: crate::wire::Window { not_before: day(0), not_after: day(90) },
        evaluation: 19,
        miscselect: [0; 4],
        miscselect_mask: [0xff; 4],
        attributes: [0; 16],
        attributes_mask: [0; 16],
        mrsigner: Digest::new([7; 32]),
        isvprodid: 2,
        levels: vec![component(4, status, day(10), "Q")],
    }
}

/// The parts of a state, owned.
#[derive(Clone)]
struct Own {
    components: [u8; 16],
    pcesvn: u16,
    launch: [u8; 16],
    current: Option<[u8; 16]>,
    signer: Digest<48>,
    attributes: [u8; 8],
    qe: u16,
}

fn own() -> Own {
    Own {
        components: svns(&[4, 4]),
        pcesvn: 11,
        launch: svns(&[5, 1, 4]),
        current: None,
        signer: Digest::new([0; 48]),
        attributes: [0; 8],
        qe: 4,
    }
}

fn run(info: &TcbInfo, identity: &QeIdentity, own: &Own) -> Result<Tcb, TcbRefusal> {
    let state = State {
        components: &own.components,
        pcesvn: own.pcesvn,
        tee_tcb_svn: &own.launch,
        tee_tcb_svn_2: own.current.as_ref(),
        mr_signer_seam: &own.signer,
        seam_attributes: &own.attributes,
        qe_isv_svn: own.qe,
    };
    judge(info, identity, &state)
}

fn status(info: &TcbInfo, identity: &QeIdentity, own: &Own) -> Result<TcbStatus, &'static str> {
    match run(info, identity, own) {
        Ok(tcb) => Ok(tcb.status),
        Err(refusal) => Err(refusal.code().text()),
    }
}

/// Intel's table, row by row as it is published: component, platforms, result.
const PUBLISHED: [(ComponentStatus, &[TcbStatus], TcbStatus); 3] = [
    (ComponentStatus::Revoked, &LEVELS, R),
    (ComponentStatus::OutOfDate, &[T, SW], O),
    (ComponentStatus::OutOfDate, &[C, CSW], OC),
];

#[test]
fn convergence_is_intels_table_for_what_it_speaks_of() {
    for component in [ComponentStatus::UpToDate, ComponentStatus::OutOfDate, ComponentStatus::Revoked] {
        for platform in LEVELS {
            let row = PUBLISHED.iter().find(|(of, on, _)| *of == component && on.contains(&platform));
            // What stands in no row leaves the platform as it is.
            let expected = row.map_or(platform, |(_, _, result)| *result);
            assert_eq!(converged(platform, component), expected, "{component} and {platform}");
        }
    }
}

#[test]
fn the_configuration_of_an_enclave_is_never_lost() {
    for (component, platform, expected) in [
        (ComponentStatus::ConfigurationNeeded, T, C),
        (ComponentStatus::ConfigurationNeeded, SW, CSW),
        (ComponentStatus::ConfigurationNeeded, C, C),
        (ComponentStatus::ConfigurationNeeded, CSW, CSW),
        (ComponentStatus::ConfigurationNeeded, O, OC),
        (ComponentStatus::ConfigurationNeeded, OC, OC),
        (ComponentStatus::ConfigurationNeeded, R, R),
        (ComponentStatus::OutOfDateConfigurationNeeded, T, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, SW, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, C, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, CSW, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, O, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, OC, OC),
        (ComponentStatus::OutOfDateConfigurationNeeded, R, R),
    ] {
        assert_eq!(converged(platform, component), expected, "{component} and {platform}");
    }
}

#[test]
fn nothing_converges_to_a_better_status_than_either() {
    let faults = |status: TcbStatus| match status {
        R => (3, true, true),
        O => (2, false, false),
        OC => (2, true, false),
        SW => (1, false, true),
        C => (1, true, false),
        CSW => (1, true, true),
        T | A | AC => (0, false, false),
    };
    for component in ComponentStatus::ALL {
        let alone = faults(TcbStatus::from_text(component.text()).unwrap());
        for platform in LEVELS {
            let (result, with) = (faults(converged(platform, component)), faults(platform));
            assert!(result.0 >= alone.0.max(with.0), "{component} and {platform}: severity");
            assert!(result.1 || !(alone.1 || with.1), "{component} and {platform}: configuration");
        }
    }
}

#[test]
fn relaunch_is_advised_only_where_launch_is_outdated_and_now_is_not() {
    for launch in LEVELS {
        for current in LEVELS {
            let cured = [T, SW, C, CSW].contains(&current);
            let expected = match (launch, current) {
                (_, R) | (R, _) => R,
                (O, T | SW) => A,
                (O, C | CSW) => AC,
                (OC, _) if cured => AC,
                // Intel's rule; where they differ, what is wrong now counts beside it.
                _ if launch == current || current == T => launch,
                _ => continue,
            };
            assert_eq!(relaunch(launch, current), expected, "{launch} then {current}");
        }
    }
}

#[test]
fn a_td_is_no_better_than_its_module_is_now() {
    for launch in [T, SW, C, CSW] {
        for current in LEVELS {
            let expected = match (launch, current) {
                (_, R) => R,
                (C | CSW, O) | (_, OC) => OC,
                (_, O) => O,
                (SW, C | CSW) | (C, SW | CSW) | (CSW, _) | (_, CSW) => CSW,
                (T, now) => now,
                (_, _) => launch,
            };
            assert_eq!(relaunch(launch, current), expected, "{launch} then {current}");
        }
    }
    assert_eq!((relaunch(O, OC), relaunch(OC, O)), (OC, OC));
}

#[test]
fn platform_module_and_enclave_all_count() {
    use ComponentStatus as S;
    for platform in LEVELS {
        for of_module in [S::UpToDate, S::OutOfDate, S::Revoked] {
            for of_enclave in S::ALL {
                let result = status(&info(platform, of_module), &identity(of_enclave), &own());
                let expected = converged(converged(platform, of_module), of_enclave);
                match expected {
                    R => assert_eq!(result, Err("tdx_tcb_revoked")),
                    _ => assert_eq!(result, Ok(expected), "{platform} {of_module} {of_enclave}"),
                }
            }
        }
    }
}

#[test]
fn dates_are_the_oldest_advisories_the_union_and_the_evaluation_the_lower() {
    let good = ComponentStatus::UpToDate;
    let tcb = run(&info(T, good), &identity(good), &own()).unwrap();
    assert_eq!((tcb.date, tcb.evaluation), (day(10), 19));
    assert_eq!(tcb.advisories, ["M", "P", "Q"].map(String::from).into());
    assert_eq!((tcb.status, tcb.launch, tcb.current, tcb.quoting_enclave), (T, T, None, good));
    let mut later = info(T, good);
    (later.evaluation, later.levels[0].date, later.modules[0].levels[0].date) = (18, day(3), day(4));
    let tcb = run(&later, &identity(good), &own()).unwrap();
    assert_eq!((tcb.date, tcb.evaluation), (day(3), 18));
    later.modules[0].levels[0].date = day(2);
    assert_eq!(run(&later, &identity(good), &own()).unwrap().date, day(2));
}

#[test]
fn the_levels_that_counted_are_told_apart() {
    let (info, identity) = (info(T, ComponentStatus::OutOfDate), identity(ComponentStatus::UpToDate));
    let mut state = own();
    // The same levels at launch and now stand once.
    state.current = Some(state.launch);
    let tcb = run(&info, &identity, &state).unwrap();
    let told: Vec<_> = tcb
        .levels
        .iter()
        .map(|level| (level.of, level.status, level.date, level.advisories.join(" "), level.is_up_to_date()))
        .collect();
    let named = |text: &str| text.to_string();
    let expected = [
        (Rated::Platform, "UpToDate", day(30), named("P"), true),
        (Rated::Module, "OutOfDate", day(20), named("M"), false),
        (Rated::QuotingEnclave, "UpToDate", day(10), named("Q"), true),
    ];
    assert_eq!(told, expected);
}

#[test]
fn no_level_is_not_out_of_date() {
    let good = ComponentStatus::UpToDate;
    let (info, identity) = (info(T, good), identity(good));
    type Change = fn(&mut Own);
    let cases: [(Change, &str); 6] = [
        (|own| own.components[0] = 3, "tdx_tcb_not_supported"),
        (|own| own.components[1] = 3, "tdx_tcb_not_supported"),
        (|own| own.pcesvn = 10, "tdx_tcb_not_supported"),
        (|own| own.launch[2] = 3, "tdx_tcb_not_supported"),
        (|own| own.launch[0] = 4, "tdx_module_tcb_not_supported"),
        (|own| own.qe = 3, "tdx_qe_tcb_not_supported"),
    ];
    for (change, code) in cases {
        let mut below = own();
        change(&mut below);
        assert_eq!(status(&info, &identity, &below), Err(code));
    }
    assert_eq!(status(&info, &identity, &own()), Ok(T));
}

#[test]
fn each_component_of_a_level_counts() {
    let good = ComponentStatus::UpToDate;
    let identity = identity(good);
    for at in 0..16 {
        let mut info = info(T, good);
        info.levels[0].sgx[at] = 5;
        assert_eq!(status(&info, &identity, &own()), Err("tdx_tcb_not_supported"), "SGX component {at}");
        let mut met = own();
        met.components = [5; 16];
        assert_eq!(status(&info, &identity, &met), Ok(T));
    }
    for at in 0..16 {
        let mut info = info(T, good);
        info.levels[0].tdx[at] = 200;
        // A module of a later version is judged by its identity in components 0 and 1.
        let expected = if at < 2 { Ok(T) } else { Err("tdx_tcb_not_supported") };
        assert_eq!(status(&info, &identity, &own()), expected, "TDX component {at}");
        // The first module has no identity: all sixteen count.
        let mut first = own();
        (first.launch, info.levels[0].tdx) = (svns(&[5, 0, 4]), svns(&[5, 0, 4]));
        assert_eq!(status(&info, &identity, &first), Ok(T));
        info.levels[0].tdx[at] += 1;
        assert_eq!(status(&info, &identity, &first), Err("tdx_tcb_not_supported"), "TDX component {at}");
    }
}

#[test]
fn the_highest_level_counts_whatever_the_order() {
    let good = ComponentStatus::UpToDate;
    let mut info = info(T, good);
    info.levels = vec![
        platform(svns(&[3, 4]), 5, svns(&[5, 0, 3]), R),
        platform(svns(&[4, 3]), 11, svns(&[5, 0, 4]), O),
        platform(svns(&[4, 4]), 10, svns(&[5, 0, 4]), C),
        platform(svns(&[4, 4]), 11, svns(&[5, 0, 3]), SW),
        platform(svns(&[4, 4]), 11, svns(&[5, 0, 4]), T),
        platform(svns(&[4, 4]), 12, svns(&[5, 0, 4]), R),
        platform(svns(&[4, 5]), 11, svns(&[5, 0, 4]), R),
    ];
    info.modules[0].levels = vec![
        component(2, ComponentStatus::Revoked, day(1), "M2"),
        component(5, good, day(20), "M5"),
        component(4, ComponentStatus::OutOfDate, day(2), "M4"),
        component(6, ComponentStatus::Revoked, day(3), "M6"),
    ];
    let mut identity = identity(good);
    identity.levels.insert(0, component(2, ComponentStatus::Revoked, day(1), "Q2"));
    identity.levels.push(component(5, ComponentStatus::Revoked, day(1), "Q5"));
    let mut expected = None;
    // Every rotation, and each reversed.
    for turn in 0..info.levels.len() {
        for reversed in [false, true] {
            let mut turned = info.clone();
            turned.levels.rotate_left(turn);
            turned.modules[0].levels.rotate_left(turn % 4);
            if reversed {
                turned.levels.reverse();
                turned.modules[0].levels.reverse();
                identity.levels.reverse();
            }
            let tcb = run(&turned, &identity, &own()).unwrap();
            assert_eq!(tcb.status, T);
            assert_eq!(*expected.get_or_insert(tcb.clone()), tcb);
        }
    }
    for (pcesvn, expected) in
        [(11, Ok(T)), (10, Ok(C)), (9, Err("tdx_tcb_revoked")), (4, Err("tdx_tcb_not_supported"))]
    {
        let own = Own { pcesvn, ..own() };
        assert_eq!(status(&info, &identity, &own), expected, "PCESVN {pcesvn}");
    }
}

#[test]
fn a_module_that_intel_does_not_name_is_refused() {
    let good = ComponentStatus::UpToDate;
    let (info, identity) = (info(T, good), identity(good));
    for version in [2, 3, 0x10, 0xff] {
        let other = Own { launch: svns(&[5, version, 4]), ..own() };
        assert_eq!(status(&info, &identity, &other), Err("tdx_module_unknown"), "{version}");
        let other = Own { current: Some(svns(&[5, version, 4])), ..own() };
        assert_eq!(status(&info, &identity, &other), Err("tdx_module_unknown"), "{version}");
    }
    for version in [0, 1] {
        let launch = svns(&[5, version, 4]);
        let signer = Own { launch, signer: Digest::new([1; 48]), ..own() };
        assert_eq!(status(&info, &identity, &signer), Err("tdx_module_signer_mismatch"));
        for bit in 0..64_u32 {
            let attributes = 1_u64.rotate_left(bit).to_le_bytes();
            let set = Own { launch, attributes, ..own() };
            assert_eq!(status(&info, &identity, &set), Err("tdx_module_attributes_mismatch"), "{bit}");
        }
    }
}

#[test]
fn attributes_outside_the_mask_must_be_clear() {
    let good = ComponentStatus::UpToDate;
    let (mut info, identity) = (info(T, good), identity(good));
    info.modules[0].module.attributes = [0x03, 0, 0, 0, 0, 0, 0, 0];
    info.modules[0].module.attributes_mask = [0x01, 0, 0, 0, 0, 0, 0, 0];
    for (first, expected) in [(0x01, true), (0x00, false), (0x03, false), (0x81, false)] {
        let set = Own { attributes: [first, 0, 0, 0, 0, 0, 0, 0], ..own() };
        assert_eq!(status(&info, &identity, &set).is_ok(), expected, "{first:#x}");
    }
}

#[test]
fn launch_and_now_are_judged_each_with_its_module() {
    let good = ComponentStatus::UpToDate;
    let (mut info, identity) = (info(T, good), identity(good));
    info.modules[0].levels = vec![
        component(5, good, day(20), "M5"),
        component(3, ComponentStatus::OutOfDate, day(15), "M3"),
        component(1, ComponentStatus::Revoked, day(14), "M1"),
    ];
    let at = |launch, current| Own {
        launch: svns(&[launch, 1, 4]),
        current: Some(svns(&[current, 1, 4])),
        ..own()
    };
    assert_eq!(status(&info, &identity, &at(5, 5)), Ok(T));
    assert_eq!(status(&info, &identity, &at(3, 5)), Ok(A));
    assert_eq!(status(&info, &identity, &at(3, 3)), Ok(O));
    assert_eq!(status(&info, &identity, &at(5, 3)), Ok(O));
    assert_eq!(status(&info, &identity, &at(1, 5)), Err("tdx_tcb_revoked"));
    assert_eq!(status(&info, &identity, &at(5, 1)), Err("tdx_tcb_revoked"));
    assert_eq!(status(&info, &identity, &at(0, 5)), Err("tdx_module_tcb_not_supported"));
    assert_eq!(status(&info, &identity, &at(5, 0)), Err("tdx_module_tcb_not_supported"));
    let tcb = run(&info, &identity, &at(3, 5)).unwrap();
    assert_eq!((tcb.launch, tcb.current, tcb.date), (O, Some(T), day(10)));
    assert_eq!(tcb.advisories, ["M3", "M5", "P", "Q"].map(String::from).into());
    // The quoting enclave converges with each side before the relaunch rule: an outdated one leaves nothing cured.
    let outdated = self::identity(ComponentStatus::OutOfDate);
    assert_eq!(status(&info, &outdated, &at(3, 5)), Ok(O));
    assert_eq!(status(&info, &self::identity(ComponentStatus::Revoked), &at(3, 5)), Err("tdx_tcb_revoked"));
    info.levels[0].status = C;
    assert_eq!(status(&info, &identity, &at(3, 5)), Ok(AC));
}

#[test]
fn a_refusal_says_which_check_it_is() {
    let good = ComponentStatus::UpToDate;
    let name = |own: &Own| run(&info(T, good), &identity(good), own).unwrap_err().check().name;
    assert_eq!(name(&Own { launch: svns(&[5, 9, 4]), ..own() }), CheckName::Identity);
    assert_eq!(name(&Own { pcesvn: 0, ..own() }), CheckName::Tcb);
    let refusal = run(&info(R, good), &identity(good), &own()).unwrap_err();
    let check = refusal.check();
    assert_eq!((check.name, check.code), (CheckName::Tcb, Some(Code::TdxTcbRevoked)));
    assert_eq!(check.actual.as_deref(), Some("the TCB at launch is revoked: M, P, Q"));
}

#[test]
fn the_part_that_is_farthest_behind_its_newest_level_is_counted() {
    let good = ComponentStatus::UpToDate;
    let (mut info, mut identity) = (info(T, good), identity(good));
    let behind = |info: &TcbInfo, identity: &QeIdentity, own: &Own| run(info, identity, own).unwrap().behind;
    assert_eq!(behind(&info, &identity, &own()), 0);
    identity.levels.push(component(5, good, day(30), "Q"));
    assert_eq!(behind(&info, &identity, &own()), 1);
    for isvsvn in [6, 7] {
        info.modules[0].levels.insert(0, component(isvsvn, good, day(30), "M"));
    }
    assert_eq!(behind(&info, &identity, &own()), 2);
    for sgx in [5, 6, 7] {
        info.levels.push(platform(svns(&[sgx, 4]), 11, svns(&[5, 0, 4]), T));
    }
    assert_eq!(behind(&info, &identity, &own()), 3);
    let newest = Own { components: svns(&[7, 4]), launch: svns(&[7, 1, 4]), qe: 5, ..own() };
    assert_eq!(behind(&info, &identity, &newest), 0);
    // The running module is newer than the one at launch: the older one counts.
    let updated = Own { launch: svns(&[5, 1, 4]), current: Some(svns(&[7, 1, 4])), ..newest };
    assert_eq!(behind(&info, &identity, &updated), 2);
}
