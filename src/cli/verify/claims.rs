//! Claims as results show them: what the evidence states, whether or not it was believed.

use serde_json::{Value, json};

use crate::evidence::snp::{Cpuid, Tcb};
use crate::verify::event_log::Logged;
use crate::verify::gpu::Gpu;
use crate::verify::snp::Snp;
use crate::verify::switch::{self, Switch};
use crate::verify::tdx::Tdx;
use crate::verify::topology::Node;

/// The claims of an SEV-SNP report.
pub fn snp(snp: &Snp) -> Value {
    let report = &snp.report;
    json!({
        "kind": "snp",
        "version": report.version,
        "product": snp.line.or_else(|| report.line()).map(|line| line.text()),
        "cpuid": report.cpuid.as_ref().map(Cpuid::to_string),
        "guest_svn": report.guest_svn,
        "policy": format!("{:#x}", report.policy.0),
        "debug": report.policy.debug(),
        "migrate_ma": report.policy.migrate_ma(),
        "smt_allowed": report.policy.smt(),
        "vmpl": report.vmpl,
        "platform_info": format!("{:#x}", report.platform_info.0),
        "signing_key": report.signer.to_string(),
        "vlek_provider": snp.provider,
        "measurement": report.measurement,
        "host_data": report.host_data,
        "report_data": hex::encode(report.report_data),
        "id_key_digest": report.id_key_digest,
        "author_key_digest": report.author_key_digest,
        "report_id": report.report_id,
        "chip_id": hex::encode(report.chip_id),
        "reported_tcb": tcb(&report.reported_tcb),
        "committed_tcb": tcb(&report.committed_tcb),
        "current_tcb": tcb(&report.current_tcb),
        "launch_tcb": tcb(&report.launch_tcb),
        "current_version": report.current_version.to_string(),
        "committed_version": report.committed_version.to_string(),
    })
}

fn tcb(tcb: &Tcb) -> String {
    tcb.to_string()
}

/// The claims of a TDX quote, of its platform's certificate, and of what Intel says of its TCB.
///
/// Of an event log the number of events of each register, if it replays into them.
pub fn tdx(tdx: &Tdx, logged: &Logged) -> Value {
    let report = &tdx.quote.report;
    let [rtmr0, rtmr1, rtmr2, rtmr3] = &report.rtmr;
    let (pck, tcb) = (tdx.pck.as_ref(), tdx.tcb.as_ref());
    let configuration = pck.and_then(|pck| pck.configuration);
    json!({
        "kind": "tdx",
        "version": tdx.quote.version.number(),
        "form": report.form.text(),
        "td_attributes": report.attributes,
        "debug": report.attributes.debug(),
        "xfam": report.xfam,
        "mr_td": report.mr_td,
        "rtmr0": rtmr0,
        "rtmr1": rtmr1,
        "rtmr2": rtmr2,
        "rtmr3": rtmr3,
        "mr_config_id": report.mr_config_id,
        "mr_owner": report.mr_owner,
        "mr_owner_config": report.mr_owner_config,
        "mr_service_td": report.mr_service_td,
        "events": match logged {
            Logged::Replayed(log) => {
                let count = |register| log.of_register(register).count();
                json!({ "rtmr0": count(0), "rtmr1": count(1), "rtmr2": count(2), "rtmr3": count(3) })
            }
            Logged::Absent | Logged::Refused(_) => Value::Null,
        },
        "report_data": hex::encode(report.report_data),
        "tee_tcb_svn": hex::encode(report.tee_tcb_svn),
        "tee_tcb_svn_2": report.tee_tcb_svn_2.map(hex::encode),
        "mr_seam": report.mr_seam,
        "qe_isv_svn": tdx.quote.qe_report.isv_svn,
        "fmspc": pck.map(|pck| hex::encode(pck.fmspc)),
        "pceid": pck.map(|pck| hex::encode(pck.pceid)),
        "ppid": pck.map(|pck| hex::encode(pck.ppid)),
        "cpu_svn": pck.map(|pck| hex::encode(pck.components)),
        "pce_svn": pck.map(|pck| pck.pcesvn),
        "platform_instance_id": pck.and_then(|pck| pck.instance_id).map(hex::encode),
        "dynamic_platform": configuration.map(|known| known.dynamic_platform),
        "cached_keys": configuration.map(|known| known.cached_keys),
        "smt_enabled": configuration.map(|known| known.smt_enabled),
        "tcb_status": tcb.map(|tcb| tcb.status.text()),
        "tcb_date": tcb.map(|tcb| tcb.date.to_string()),
        "tcb_advisories": tcb.map(|tcb| &tcb.advisories),
        "tcb_evaluation_data_number": tcb.map(|tcb| tcb.evaluation),
        "tcb_levels_behind": tcb.map(|tcb| tcb.behind),
    })
}

/// The claims of GPU evidence.
pub fn gpu(gpu: &Gpu) -> Value {
    let opaque = &gpu.report.opaque;
    json!({
        "kind": "gpu",
        "architecture": gpu.architecture.map(|architecture| architecture.chip()),
        "pdi": gpu.pdi,
        "device_key_sha256": gpu.device_key,
        "leaf_serial": hex::encode(&gpu.leaf_serial),
        "driver_version": opaque.driver_version.as_ref().map(ToString::to_string),
        "vbios_version": opaque.vbios_version.map(|version| version.to_string()),
        "driver_rim_id": gpu.driver_rim_id,
        "vbios_rim_id": gpu.vbios_rim_id,
        "mode": format!("{:?}", gpu.mode).to_lowercase(),
        "nonce": hex::encode(gpu.report.request_nonce),
        "fwid": opaque.fwid,
        "unknown_fields": opaque.unknown,
        "mismatched_indices": gpu.comparison.as_ref().map(|comparison| {
            comparison.mismatched.iter().map(|mismatch| mismatch.index).collect::<Vec<u8>>()
        }),
    })
}

/// The claims of a switch's evidence.
pub fn switch(switch: &Switch) -> Value {
    let opaque = &switch.report.opaque;
    json!({
        "kind": "switch",
        "architecture": switch::PRODUCT,
        "pdi": switch.pdi,
        "device_key_sha256": switch.device_key,
        "leaf_serial": hex::encode(&switch.leaf_serial),
        "bios_version": opaque.bios_version.map(|version| version.to_string()),
        "bios_rim_id": switch.bios_rim_id,
        "nonce": hex::encode(switch.report.request_nonce),
        "gpu_pdis": opaque.gpu_pdis,
        "position": opaque.position,
        "disabled_ports": opaque.disabled_ports.map(|ports| format!("{ports:#06x}")),
        "lock_status": opaque.lock.map(|lock| lock.number()),
        "unknown_fields": opaque.unknown,
        "mismatched_indices": switch.comparison.as_ref().map(|comparison| {
            comparison.mismatched.iter().map(|mismatch| mismatch.index).collect::<Vec<u8>>()
        }),
    })
}

/// The node that several devices make up.
pub fn node(node: &Node) -> Value {
    json!({ "mode": node.mode.text(), "gpus": node.gpus, "switches": node.switches })
}
