//! Collateral that was put back: genuine, inside its windows, and older than what the service saw in use.

use claviger::release::standing::mark;
use claviger::sim::TdxGuest;
use claviger::wire::Code;

use super::{Guest, Stage, open};

/// Puts collateral of that recovery into the folder, in the place of what lies there.
fn publish(stage: &Stage, guest: &mut Guest<TdxGuest>, evaluation: u32) {
    let given = &mut guest.devices.machine.cpu.collateral;
    (given.tcb_info.evaluation, given.qe_identity.evaluation) = (evaluation, evaluation);
    stage.publish("t", &guest.devices.machine);
}

#[track_caller]
fn rolled_back(stage: &Stage, guest: &mut Guest<TdxGuest>) {
    let entries = stage.entries().len();
    let sent = guest.release(stage);
    let reply = stage.attest(&sent);
    reply.refused(Code::TdxCollateralRolledBack);
    assert_eq!(reply.status, 503, "no denial: the service lacks what it needs");
    assert_eq!(stage.entries().len(), entries, "nothing was decided, so nothing is recorded");
}

#[test]
fn older_collateral_is_not_taken_again_nor_after_a_restart() {
    let mut stage = Stage::new("rolled-back");
    let mut guest = stage.tdx("t");
    publish(&stage, &mut guest, 19);
    guest.granted(&stage);
    publish(&stage, &mut guest, 20);
    guest.granted(&stage);
    publish(&stage, &mut guest, 19);
    rolled_back(&stage, &mut guest);
    let again = stage.runtime.block_on(open(stage.scratch.path(), stage.now().get()));
    stage.open = again;
    stage.open.service.open();
    rolled_back(&stage, &mut guest);
    // Beside the newer one it does no harm.
    let older = std::fs::read(stage.endorsements().join("t-collateral.json")).unwrap();
    std::fs::write(stage.endorsements().join("older.json"), older).unwrap();
    publish(&stage, &mut guest, 20);
    guest.granted(&stage);
    stage.holds();
}

#[test]
fn a_mark_is_raised_though_nobody_asks() {
    let stage = Stage::new("marked");
    let mut guest = stage.tdx("t");
    publish(&stage, &mut guest, 21);
    assert_eq!(stage.runtime.block_on(mark(stage.service())).unwrap(), Vec::<String>::new());
    publish(&stage, &mut guest, 20);
    let told = stage.runtime.block_on(mark(stage.service())).unwrap();
    let fmspc = hex::encode(guest.devices.machine.cpu.collateral.tcb_info.fmspc);
    assert_eq!(told, [format!("TCB info for FMSPC {fmspc}")]);
    rolled_back(&stage, &mut guest);
}

#[test]
fn a_denied_guest_raises_the_mark_too() {
    let stage = Stage::new("denied-mark");
    let mut guest = stage.tdx("t");
    publish(&stage, &mut guest, 20);
    // Intel says that this platform is out of date.
    for level in &mut guest.devices.machine.cpu.collateral.tcb_info.levels {
        level.status = "OutOfDate".to_string();
    }
    publish(&stage, &mut guest, 21);
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::TdxTcbOutOfDate);
    // Whoever puts back what Intel said before gains nothing by it.
    for level in &mut guest.devices.machine.cpu.collateral.tcb_info.levels {
        level.status = "UpToDate".to_string();
    }
    publish(&stage, &mut guest, 20);
    rolled_back(&stage, &mut guest);
}

/// A folder to which each day adds a file by its date has the newest one last.
#[test]
fn the_newest_collateral_judges_however_many_older_files_lie_before_it() {
    let stage = Stage::new("many-older");
    let mut guest = stage.tdx("t");
    publish(&stage, &mut guest, 19);
    let older = std::fs::read(stage.endorsements().join("t-collateral.json")).unwrap();
    for day in 0..=claviger::wire::limits::COLLATERAL_SETS_MAX {
        std::fs::write(stage.endorsements().join(format!("2026-11-{day:02}.json")), &older).unwrap();
    }
    // Intel says meanwhile that this platform is out of date.
    for level in &mut guest.devices.machine.cpu.collateral.tcb_info.levels {
        level.status = "OutOfDate".to_string();
    }
    publish(&stage, &mut guest, 20);
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::TdxTcbOutOfDate);
}
