//! Simulated artefacts: their signatures verify, and their form is that of real ones.

#![expect(clippy::unwrap_used, reason = "a test may panic, its functions too")]

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claviger::endorse::{Certificate, PublicKey, SignatureAlgorithm};
use claviger::sim::amd::{Amd, Line, SnpFields, Tcb};
use claviger::sim::der;
use claviger::sim::ocsp::{self, CertIdHash};
use claviger::sim::rim::{self, Values};
use claviger::sim::{
    Family, GpuFields, Machine, OcspFields, OcspIssuer, OcspStatus, Responder, RimKind, RimOptions,
    StatedFwid, SwitchFields, Vendors,
};
use claviger::wire::crypto::{self, P256Signature, P384Signature};
use claviger::wire::{UnixSeconds, Window};

pub mod intel;

/// The folder above all families.
fn vectors() -> Option<PathBuf> {
    super::vectors::folder("snp")?.parent().map(PathBuf::from)
}

fn vendors() -> &'static Vendors {
    Vendors::shared().unwrap()
}

fn certificate(der: &[u8]) -> Certificate {
    Certificate::from_der(der).unwrap()
}

fn signs(issuer: &Certificate, message: &[u8], signature: &[u8]) -> bool {
    match &issuer.key {
        PublicKey::P256(point) => crypto::verify_p256(point, message, P256Signature::Der(signature)).is_ok(),
        PublicKey::P384(point) => crypto::verify_p384(point, message, P384Signature::Der(signature)).is_ok(),
        PublicKey::Rsa4096(key) => crypto::verify_rsa_pss_sha384(key, message, signature).is_ok(),
    }
}

fn assert_chain(chain: &[Vec<u8>]) {
    let chain: Vec<_> = chain.iter().map(|der| certificate(der)).collect();
    for pair in chain.windows(2) {
        assert!(signs(&pair[1], pair[0].tbs(), &pair[0].signature), "{}", pair[0].subject_cn);
        assert_eq!(pair[0].issuer, pair[1].subject);
    }
    let root = chain.last().unwrap();
    assert!(signs(root, root.tbs(), &root.signature), "{}", root.subject_cn);
    assert_eq!(root.issuer, root.subject);
}

fn tlv(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (len, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        (
            bytes
                .iter()
                .try_fold(0usize, |len, byte| len.checked_mul(256)?.checked_add(usize::from(*byte)))?,
            rest,
        )
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Lists tags, object identifiers, names and other fixed content, and leaves out keys, numbers, times and digests.
fn skeleton(der: &[u8], depth: usize, out: &mut Vec<String>) -> bool {
    let mut rest = der;
    while !rest.is_empty() {
        let Some((tag, content, after)) = tlv(rest) else { return false };
        rest = after;
        let pad = " ".repeat(depth);
        let text = String::from_utf8_lossy(content);
        let shown = match tag {
            0x0c if text.starts_with("NVIDIA:") && text.len() == 29 => {
                format!("{} characters", content.len())
            }
            0x0c | 0x16 | 0x86 => text.to_string(),
            0x13 if content.len() == 2 => text.to_string(),
            0x01 | 0x06 | 0x0a => hex::encode(content),
            0x02 | 0x03 if content.len() <= 2 => hex::encode(content),
            _ => String::new(),
        };
        out.push(format!("{pad}{tag:02x} {shown}"));
        // Raw digests and chip ids have these lengths, and wrapped values have not.
        let wrapped = tag == 0x04 && !matches!(content.len(), 6 | 8 | 16 | 20 | 48 | 64);
        if tag & 0x20 != 0 && !skeleton(content, depth + 1, out) {
            return false;
        }
        if wrapped && !skeleton(content, depth + 1, out) {
            return false;
        }
    }
    true
}

fn assert_same_form(real: &[u8], minted: &[u8]) {
    assert_eq!(form(real), form(minted));
}

fn form(der: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    assert!(skeleton(der, 0, &mut out));
    out
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

#[test]
fn amd_chain_and_report_verify() {
    let vendors = vendors();
    let machine = Machine::new(vendors, 0).unwrap();
    let (ark, ask) = (vendors.amd.ark_der().to_vec(), vendors.amd.ask_der().to_vec());
    assert_chain(&[machine.cpu.chip.vcek_der().to_vec(), ask, ark]);
    let vcek = certificate(machine.cpu.chip.vcek_der());
    assert_eq!(vcek.serial, [0]);
    assert_eq!(vcek.algorithm, SignatureAlgorithm::RsaPssSha384);
    let report = machine.cpu_report([7; 64]).unwrap();
    assert_eq!(report.len(), 1184);
    let mut signature = [0; 96];
    signature[..48].copy_from_slice(&report[0x2a0..0x2d0]);
    signature[48..].copy_from_slice(&report[0x2e8..0x318]);
    signature[..48].reverse();
    signature[48..].reverse();
    let PublicKey::P384(point) = vcek.key else { panic!("not a P-384 key") };
    crypto::verify_p384(&point, &report[..0x2a0], P384Signature::Fixed(&signature)).unwrap();
    assert_eq!(report[0x50..0x90], [7; 64]);
    assert!(report[0x2d0..0x2e8].iter().chain(&report[0x318..]).all(|byte| *byte == 0));
}

#[test]
fn amd_certificates_and_lists_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    let read = |path: &str| std::fs::read(folder.join("snp").join(path)).unwrap();
    let amd = &vendors().amd;
    assert_same_form(&read("chains/genoa/ark.der"), amd.ark_der());
    assert_ne!(form(&read("chains/genoa/ark.der")), form(&read("chains/milan/ark.der")));
    assert_same_form(&read("chains/genoa/ask.der"), amd.ask_der());
    let tcb = Tcb { boot_loader: 0x0a, snp: 0x17, microcode: 0x19, ..Tcb::default() };
    let chip = amd.chip([0x37; 64], tcb).unwrap();
    assert_same_form(&read("cases/siena-v3-trustee-e2e/vcek.der"), chip.vcek_der());
    let crl = amd.crl(vendors().now, Some(vendors().now.plus(9)), 4, &[0x20001]).unwrap();
    assert_same_form(&read("crl/genoa-2024-10-23.crl.der"), &crl);
}

#[test]
fn other_product_lines_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    let read = |path: &str| std::fs::read(folder.join("snp").join(path)).unwrap();
    let turin = Amd::new(Line::Turin, vendors().now).unwrap();
    assert_same_form(&read("chains/turin/ark.der"), turin.ark_der());
    assert_same_form(&read("chains/turin/ask.der"), turin.ask_der());
    let tcb = Tcb { fmc: 1, boot_loader: 1, tee: 1, snp: 4, microcode: 0x51 };
    let chip = turin.chip([0x59; 64], tcb).unwrap();
    assert_same_form(&read("cases/turin-v5-aci/vcek.der"), chip.vcek_der());
    let real = read("cases/turin-v5-aci/report.bin");
    let minted = chip.report(&chip.fields()).unwrap();
    for (from, to) in [(0x38, 0x50), (0x180, 0x1a0), (0x1a8, 0x2a0)] {
        assert_eq!(real[from..to], minted[from..to], "{from:#x}");
    }
}

#[test]
fn a_providers_key_and_its_issuer_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    let read = |path: &str| std::fs::read(folder.join("snp").join(path)).unwrap();
    let amd = &vendors().amd;
    assert_same_form(&read("chains/genoa/asvk.der"), &amd.asvk().unwrap().der);
    let chip = amd.chip([0x37; 64], Tcb { snp: 0x17, microcode: 0x54, ..Tcb::default() }).unwrap();
    let vlek = amd.vcek(&chip, &amd.vlek_fields(&chip, "CN=cc-us-east-2.amazonaws.com")).unwrap();
    assert_chain(&[vlek.clone(), amd.asvk().unwrap().der.clone(), amd.ark_der().to_vec()]);
    // The only real one is of Milan; levels and line are values, not form.
    let without_values = |der: &[u8]| -> Vec<String> {
        let shown = form(der).into_iter().map(|line| line.replace("Milan", "Genoa"));
        shown.filter(|line| !line.trim_start().starts_with("02 ")).collect()
    };
    let real = read("cases/milan-v3-vlek-aws-vmpl1/vlek.der");
    assert_eq!(without_values(&real), without_values(&vlek));
}

#[test]
fn a_report_with_real_fields_is_the_real_report() {
    let Some(folder) = vectors() else { return };
    let real = std::fs::read(folder.join("snp/cases/genoa-v3-aci/report.bin")).unwrap();
    let tcb = Tcb { microcode: 0x54, snp: 0x17, ..Tcb::default() };
    let chip = vendors().amd.chip(array(&real, 0x1a0), tcb).unwrap();
    let fields = SnpFields {
        guest_svn: 2,
        policy: 0x3001f,
        family_id: array(&real, 0x10),
        image_id: array(&real, 0x20),
        platform_info: 0x27,
        report_data: array(&real, 0x50),
        measurement: array(&real, 0x90),
        host_data: array(&real, 0xc0),
        id_key_digest: array(&real, 0xe0),
        report_id: array(&real, 0x140),
        ..chip.fields()
    };
    assert_eq!(chip.report(&fields).unwrap()[..0x2a0], real[..0x2a0]);
}

#[test]
fn a_wrong_vcek_is_wrong_only_where_asked() {
    let amd = &vendors().amd;
    let chip = amd.chip([2; 64], Tcb::default()).unwrap();
    let right = certificate(chip.vcek_der());
    let oids = |certificate: &Certificate| -> Vec<String> {
        certificate.extensions.iter().map(|extension| extension.oid.clone()).collect()
    };
    let mut fields = amd.vcek_fields(&chip);
    fields.omitted = vec!["3.8"];
    let wrong = certificate(&amd.vcek(&chip, &fields).unwrap());
    let mut expected = oids(&right);
    expected.retain(|oid| oid != "1.3.6.1.4.1.3704.1.3.8");
    assert_eq!(oids(&wrong), expected);
    assert_eq!(wrong.key, right.key);
    let mut fields = amd.vcek_fields(&chip);
    fields.replaced = vec![("3.3", vec![2, 1, 1])];
    fields.hwid = Some(vec![3; 64]);
    let wrong = certificate(&amd.vcek(&chip, &fields).unwrap());
    assert_eq!(oids(&wrong), oids(&right));
    assert_eq!(wrong.extension("1.3.6.1.4.1.3704.1.3.3").unwrap().value, [2, 1, 1]);
    assert_eq!(wrong.extension("1.3.6.1.4.1.3704.1.4").unwrap().value, [3; 64]);
    assert_eq!(right.extension("1.3.6.1.4.1.3704.1.4").unwrap().value, [2; 64]);
}

#[test]
fn gpu_chain_and_report_verify() {
    let nvidia = &vendors().nvidia;
    let pdi = *b"\x84\x1d\x48\x0f\xe5\xe8\x72\x74";
    let gpu = nvidia.gpu(pdi, b"firmware").unwrap();
    assert_chain(&gpu.chain);
    let chain = Certificate::list_from_pem(&gpu.chain_pem(), 5120).unwrap();
    assert_eq!(chain.len(), 5);
    assert_eq!(chain[1].serial, [&[0x41], &pdi[..]].concat());
    assert_eq!(chain[4].window.not_after.to_string(), "9999-12-31T23:59:59Z");
    let report = gpu.report([9; 32], &GpuFields::default()).unwrap();
    let (signed, signature) = report.split_at(report.len() - 96);
    let PublicKey::P384(point) = chain[0].key else { panic!("not a P-384 key") };
    crypto::verify_p384(&point, signed, P384Signature::Fixed(signature.try_into().unwrap())).unwrap();
    let newer = gpu.with_firmware(b"newer", vendors().now).unwrap();
    assert_eq!(newer.chain[1..], gpu.chain[1..]);
    assert_ne!(newer.chain[0], gpu.chain[0]);
    assert_ne!(newer.fwid, gpu.fwid);
}

/// A member of the first entry of a real list.
fn listed(path: &std::path::Path, member: &str) -> Vec<u8> {
    let list: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let list = list.get("evidence_list").unwrap_or(&list);
    STANDARD.decode(list[0][member].as_str().unwrap()).unwrap()
}

#[test]
fn chains_of_other_families_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    for (family, path) in
        [(Family::Blackwell, "gb100-mpt-8gpu-590.48.01.json"), (Family::Switch, "hgx-ppcie-4switch.json")]
    {
        let text = listed(&folder.join("nvidia/evidence").join(path), "certificate");
        let real = Certificate::list_from_pem(&text, 5120).unwrap();
        let chip = vendors().nvidia.chip(family, [0x11; 8], b"firmware").unwrap();
        assert_chain(&chip.chain);
        for (real, minted) in real.iter().zip(&chip.chain) {
            assert_same_form(real.der(), minted);
        }
    }
}

#[test]
fn a_switch_report_with_real_fields_is_the_real_report() {
    let Some(folder) = vectors() else { return };
    let real = std::fs::read(folder.join("nvidia/switch/ls10-96.10.55.00.01/report.bin")).unwrap();
    let opaque_at = 45 + 31 * 55 + 32 + 2;
    let opaque = Opaque(&real[opaque_at..real.len() - 96]);
    let field = |id| opaque.field(id).unwrap();
    let word = |id| u16::from_le_bytes(array(&field(id), 0));
    let fields = SwitchFields {
        gpus: (0..8).map(|at| array(&field(26), 8 * at)).collect(),
        disabled_ports: word(23),
        position: word(24),
        lock: word(25),
        measurements: (0..31).map(|index| array(&real, 45 + 55 * index + 7)).collect(),
        counts: Some(field(12).chunks(4).map(|c| u32::from_le_bytes(array(c, 0))).collect()),
        ..SwitchFields::running(&opaque.text(6), array(&field(22), 0), &[])
    };
    let switch = vendors().nvidia.chip(Family::Switch, fields.pdi, b"firmware").unwrap();
    let minted = switch.report(array(&real, 4), &fields).unwrap();
    assert_eq!(minted.len(), real.len());
    assert_eq!(minted[..opaque_at - 34], real[..opaque_at - 34]);
    // Port numbers are left unused: nothing reads them.
    let ports = opaque_at + (4 + 14) + (4 + 8) + (4 + 104) + 4 + 64;
    assert_eq!(minted[opaque_at..ports], real[opaque_at..ports]);
    assert_eq!(minted[ports + 64..real.len() - 96], real[ports + 64..real.len() - 96]);
}

#[test]
fn switches_and_blackwells_measure_zero_where_real_ones_do() {
    let Some(folder) = vectors() else { return };
    let real = std::fs::read(folder.join("nvidia/switch/ls10-96.10.55.00.01/report.bin")).unwrap();
    let fields = SwitchFields::running("96.10.55.00.01", [1; 8], &[]);
    for (index, minted) in fields.measurements.iter().enumerate() {
        let real: [u8; 48] = array(&real, 45 + 55 * index + 7);
        assert_eq!(real == [0; 48], *minted == [0; 48], "index {index}");
    }
    assert_eq!(fields.bios_rim_id(), "NV_SWITCH_BIOS_5612_0002_890_9610550001");
    let real = listed(&folder.join("nvidia/evidence/gb100-mpt-8gpu-590.48.01.json"), "evidence");
    let fields = GpuFields::blackwell("590.48.01", array(&real, 3603));
    let measured = [RimKind::BlackwellDriver, RimKind::BlackwellVbios].map(RimKind::active).concat();
    // Index 61 lists zero beside another value: the real machine measures the other.
    for index in measured.iter().filter(|index| **index != 61).map(|index| usize::from(*index)) {
        let real: [u8; 48] = array(&real, 45 + 55 * index + 7);
        assert_eq!(real == [0; 48], fields.measurements[index] == [0; 48], "index {index}");
    }
    assert_eq!(fields.driver_rim_id(), "NV_GPU_CC_DRIVER_GB100_590.48.01");
}

#[test]
fn gpu_chain_has_the_real_form() {
    let Some(folder) = vectors() else { return };
    let text = std::fs::read(folder.join("nvidia/gpu/h100-550.90.07/chain.pem")).unwrap();
    let real = Certificate::list_from_pem(&text, 5120).unwrap();
    let gpu = vendors().nvidia.gpu([0x11; 8], b"firmware").unwrap();
    let pem = gpu.chain_pem();
    for (real, minted) in real.iter().zip(&gpu.chain) {
        assert_same_form(real.der(), minted);
    }
    let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines(&pem), lines(&text));
    assert!(pem.ends_with(b"-----END CERTIFICATE-----"));
    assert!(pem.len().abs_diff(text.len()) < 40, "{} and {}", pem.len(), text.len());
}

struct Opaque<'a>(&'a [u8]);

impl Opaque<'_> {
    fn field(&self, id: u16) -> Option<Vec<u8>> {
        let mut rest = self.0;
        while let Some((&[t0, t1, l0, l1], after)) = rest.split_first_chunk() {
            let (value, after) = after.split_at(usize::from(u16::from_le_bytes([l0, l1])));
            if u16::from_le_bytes([t0, t1]) == id {
                return Some(value.to_vec());
            }
            rest = after;
        }
        None
    }

    fn text(&self, id: u16) -> String {
        let bytes = self.field(id).unwrap();
        String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_string()
    }
}

#[test]
fn a_gpu_report_with_real_fields_is_the_real_report() {
    let Some(folder) = vectors() else { return };
    let gpu = vendors().nvidia.gpu([0x11; 8], b"firmware").unwrap();
    for case in ["h100-550.90.07", "h800-570.124.03", "h800-580.159.03"] {
        let real = std::fs::read(folder.join("nvidia/gpu").join(case).join("report.bin")).unwrap();
        let opaque = Opaque(&real[3599..real.len() - 96]);
        let measurements = (0..64).map(|index| array(&real, 45 + 55 * index + 7)).collect();
        let u16_of = |id| opaque.field(id).map(|bytes| u16::from_le_bytes(array(&bytes, 0)));
        let counts = opaque.field(12).unwrap().chunks(4).map(|c| u32::from_le_bytes(array(c, 0))).collect();
        let fields = GpuFields {
            driver: opaque.text(3),
            vbios: array(&opaque.field(6).unwrap(), 0),
            project: opaque.text(17),
            project_sku: opaque.text(18),
            chip_sku: opaque.text(15),
            board_id: u32::from_le_bytes(array(&opaque.field(14).unwrap(), 0)),
            fwid: StatedFwid::Other(array(&opaque.field(20).unwrap(), 0)),
            opaque_version: u16_of(34),
            feature_flag: u16_of(36),
            measurements,
            counts: Some(counts),
            ..GpuFields::default()
        };
        let minted = gpu.report(array(&real, 4), &fields).unwrap();
        assert_eq!(minted.len(), real.len(), "{case}");
        assert_eq!(minted[..3565], real[..3565], "{case}");
        assert_eq!(minted[3597..real.len() - 96], real[3597..real.len() - 96], "{case}");
    }
}

#[test]
fn simulated_measurements_are_zero_where_real_ones_are() {
    let Some(folder) = vectors() else { return };
    let real = std::fs::read(folder.join("nvidia/gpu/h100-550.90.07/report.bin")).unwrap();
    let fields = GpuFields::default();
    for (index, minted) in fields.measurements.iter().enumerate() {
        let real: [u8; 48] = array(&real, 45 + 55 * index + 7);
        assert_eq!(real == [0; 48], *minted == [0; 48], "index {index}");
    }
    assert_eq!(fields.driver_rim_id(), "NV_GPU_DRIVER_GH100_550.90.07");
    assert_eq!(fields.vbios_rim_id(), "NV_GPU_VBIOS_1010_0200_882_96009F0001");
}

#[test]
fn a_machine_in_order_matches_its_rims() {
    let fields = GpuFields::default();
    for (kind, version) in [(RimKind::Driver, fields.driver.clone()), (RimKind::Vbios, fields.vbios_text())] {
        let values = rim::reference_values(kind, &version);
        assert_eq!(values.keys().copied().collect::<Vec<_>>(), kind.active());
        for (index, alternatives) in values {
            assert!(alternatives.contains(&fields.measurements[usize::from(index)]), "index {index}");
        }
    }
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let (_, after) = element.split_once(&format!(" {name}=\"")).unwrap();
    after.split_once('"').unwrap().0
}

fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let start = text.find(&format!("<{name}>")).unwrap();
    let end = text.find(&format!("</{name}>")).unwrap();
    &text[start..end + name.len() + 3]
}

fn content<'a>(text: &'a str, name: &str) -> &'a str {
    let element = element(text, name);
    &element[name.len() + 2..element.len() - name.len() - 3]
}

fn active_values(text: &str) -> Values {
    let resources =
        text.lines().filter(|line| line.contains("<ns0:Resource ") && line.contains("active=\"True\""));
    resources
        .map(|line| {
            let count: usize = attribute(line, "alternatives").parse().unwrap();
            let hash = |number| hex::decode(attribute(line, &format!("ns2:Hash{number}"))).unwrap();
            let values = (0..count).map(|number| array(&hash(number), 0)).collect();
            (attribute(line, "index").parse().unwrap(), values)
        })
        .collect()
}

/// Checks digest and signature under the first certificate of the document.
fn assert_rim_signed(text: &str) {
    let (head, signature) = text.split_once("<ds:Signature ").unwrap();
    let whole = rim::canonical(&format!("{head}</SoftwareIdentity>"));
    let digest = STANDARD.encode(crypto::sha384(&[whole.as_bytes()]).bytes());
    assert_eq!(content(signature, "ds:DigestValue"), digest);
    let info = rim::canonical_signed_info(element(signature, "ds:SignedInfo"));
    let value = STANDARD.decode(content(signature, "ds:SignatureValue")).unwrap();
    let leaf = content(signature, "ds:X509Certificate").replace('\n', "");
    let PublicKey::P384(point) = certificate(&STANDARD.decode(leaf).unwrap()).key else {
        panic!("not a P-384 key")
    };
    let value = value.as_slice().try_into().unwrap();
    crypto::verify_p384(&point, info.as_bytes(), P384Signature::Fixed(value)).unwrap();
}

/// Takes out what differs from signer to signer.
fn signature_form(text: &str) -> String {
    let mut form = text[text.find("<ds:Signature ").unwrap()..].to_string();
    for name in ["ds:DigestValue", "ds:SignatureValue"] {
        form = form.replace(content(&form.clone(), name), "");
    }
    let mut pieces = form.split("<ds:X509Certificate>");
    let mut out = pieces.next().unwrap().to_string();
    for piece in pieces {
        let (base64, after) = piece.split_once("</ds:X509Certificate>").unwrap();
        assert!(base64.ends_with('\n') && base64.lines().rev().skip(1).all(|line| line.len() == 64));
        out += &format!("<ds:X509Certificate></ds:X509Certificate>{after}");
    }
    out
}

#[test]
fn a_rim_with_real_values_is_the_real_rim() {
    let Some(folder) = vectors() else { return };
    for (kind, path) in [
        (RimKind::Driver, "driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag"),
        (RimKind::Vbios, "vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.swidtag"),
        (RimKind::BlackwellDriver, "driver/NV_GPU_CC_DRIVER_GB100_595.91.07.xml"),
        (RimKind::SwitchBios, "switch/NV_SWITCH_BIOS_5612_0002_890_9610550001.xml"),
    ] {
        let real = std::fs::read_to_string(folder.join("nvidia/rim").join(path)).unwrap();
        assert_rim_signed(&real);
        let options =
            RimOptions { tag_id: Some(attribute(&real, "tagId").to_string()), ..RimOptions::of(kind) };
        let version = attribute(&real, "colloquialVersion");
        let values = active_values(&real);
        assert_eq!(values.keys().copied().collect::<Vec<_>>(), kind.active());
        let minted = vendors().nvidia.rim(kind, version, &values, &options).unwrap();
        let minted = String::from_utf8(minted).unwrap();
        assert_rim_signed(&minted);
        let head = |text: &str| text.split_once("<ds:Signature ").unwrap().0.to_string();
        assert_eq!(head(&minted), head(&real));
        assert_eq!(signature_form(&minted), signature_form(&real));
        assert_eq!(content(&minted, "ds:DigestValue"), content(&real, "ds:DigestValue"));
    }
}

#[test]
fn rim_certificates_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    let path = "nvidia/rim/driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag";
    let real = std::fs::read_to_string(folder.join(path)).unwrap();
    let nvidia = &vendors().nvidia;
    let minted = [&nvidia.rim_l4, &nvidia.rim_l3, &nvidia.rim_l2, &nvidia.rim_root];
    assert_chain(&minted.map(|authority| authority.der.clone()));
    let mut rest = real.as_str();
    for minted in minted {
        let der = STANDARD.decode(content(rest, "ds:X509Certificate").replace('\n', "")).unwrap();
        assert_same_form(&der, &minted.der);
        rest = rest.split_once("</ds:X509Certificate>").unwrap().1;
    }
}

#[test]
fn an_odd_rim_still_carries_a_true_signature() {
    let values = rim::reference_values(RimKind::Driver, "550.90.07");
    let mint = |options| {
        let bytes = vendors().nvidia.rim(RimKind::Driver, "550.90.07", &values, &options).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let odd =
        mint(RimOptions { signed_edits: vec![("size=\"48\"", "size=\"10\"")], ..RimOptions::default() });
    assert!(odd.contains("size=\"10\""));
    assert_rim_signed(&odd);
    let now = vendors().now;
    let lapsed = Window { not_before: now.plus(-200), not_after: now.plus(-100) };
    let signer = vendors().nvidia.rim_signer(lapsed).unwrap();
    let old = mint(RimOptions { signer: Some(&signer), ..RimOptions::default() });
    assert_rim_signed(&old);
    let leaf = STANDARD.decode(content(&old, "ds:X509Certificate").replace('\n', "")).unwrap();
    assert_eq!(certificate(&leaf).window, lapsed);
}

/// Takes an answer apart: signed data, signature, responder certificate.
fn answer(der: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let inside = |der: &[u8]| tlv(der).unwrap().1.to_vec();
    let after = |der: &[u8]| tlv(der).unwrap().2.to_vec();
    let bytes = inside(&inside(&after(&inside(der))));
    let basic = inside(&inside(&after(&bytes)));
    let (_, content, rest) = tlv(&basic).unwrap();
    let header = basic.len() - rest.len() - content.len();
    let data = basic[..header + content.len()].to_vec();
    let bits = after(rest);
    (data, inside(&bits)[1..].to_vec(), inside(&inside(&after(&bits))))
}

#[test]
fn ocsp_answers_verify_under_their_issuers() {
    let vendors = vendors();
    let (nvidia, now) = (&vendors.nvidia, vendors.now);
    let gpu = nvidia.gpu([0x22; 8], b"firmware").unwrap();
    let device = nvidia.ocsp_for_device(&gpu, now).unwrap();
    let rim = nvidia.ocsp_for_rim(Family::Hopper, now).unwrap();
    let issuers = [
        &nvidia.provisioner,
        &nvidia.identity,
        &nvidia.device_root,
        &nvidia.rim_l3,
        &nvidia.rim_l2,
        &nvidia.rim_root,
    ];
    assert_eq!(device.len() + rim.len(), issuers.len());
    for (der, issuer) in device.iter().chain(&rim).zip(issuers) {
        let (data, signature, responder) = answer(der);
        let responder = certificate(&responder);
        assert!(signs(&certificate(&issuer.der), responder.tbs(), &responder.signature));
        assert!(signs(&responder, &data, &signature));
    }
}

#[test]
fn ocsp_answers_have_the_real_form() {
    let Some(folder) = vectors() else { return };
    let vendors = vendors();
    let (nvidia, now) = (&vendors.nvidia, vendors.now);
    let gpu = nvidia.gpu([0x22; 8], b"firmware").unwrap();
    let device = nvidia.ocsp_for_device(&gpu, now).unwrap();
    let rim = nvidia.ocsp_for_rim(Family::Hopper, now).unwrap();
    let names = [
        "device-1-brom",
        "device-2-provisioner-ica",
        "device-3-identity",
        "rim-driver-0-l4-signer",
        "rim-1-l3-gh100-002",
        "rim-2-gh100-ca",
    ];
    for (name, minted) in names.iter().zip(device.iter().chain(&rim)) {
        let path = folder.join(format!("nvidia/ocsp/h100-550.90.07/{name}.resp.der"));
        assert_same_form(&std::fs::read(path).unwrap(), minted);
    }
    assert_eq!(hex::encode(ocsp::unauthorized()), "30030a0106");
}

#[test]
fn ocsp_switches_reach_the_answer() {
    let vendors = vendors();
    let (nvidia, now) = (&vendors.nvidia, vendors.now);
    let ask = |fields: &OcspFields| nvidia.ocsp(&nvidia.rim_l4.der, OcspIssuer::RimL3, fields).unwrap();
    let good = OcspFields::good(now);
    let with_nonce = answer(&ask(&OcspFields { nonce: Some(vec![5; 32]), ..good.clone() })).0;
    assert!(with_nonce.ends_with(&[&[4, 34, 4, 32], &[5; 32][..]].concat()));
    let revoked = OcspStatus::Revoked { at: now, reason: Some(6) };
    let revoked = answer(&ask(&OcspFields { status: revoked, ..good.clone() })).0;
    // [1] with the time, and [0] with ENUMERATED 6.
    let time = now_digits(now);
    let expected = [&[0xa1, 22, 0x18, 15], time.as_bytes(), &[0xa0, 3, 10, 1, 6]].concat();
    assert!(revoked.windows(expected.len()).any(|window| window == expected));
    let unknown = answer(&ask(&OcspFields { status: OcspStatus::Unknown, ..good.clone() })).0;
    assert!(unknown.windows(4).any(|window| window == [0x82, 0, 0x18, 15]));
    let foreign = OcspFields { responder: Responder::Of(OcspIssuer::RimL2), ..good.clone() };
    let (_, _, responder) = answer(&ask(&foreign));
    assert_eq!(certificate(&responder).issuer_cn, "NVIDIA Reference Value GH100 CA");
    let lapsed = answer(&ask(&OcspFields { responder: Responder::Lapsed, ..good.clone() })).2;
    assert!(!certificate(&lapsed).window.contains(now));
    let sha1 = answer(&ask(&OcspFields { hash: CertIdHash::Sha1, ..good })).0;
    let sha1_oid = der::oid("1.3.14.3.2.26");
    assert!(sha1.windows(sha1_oid.len()).any(|window| window == sha1_oid));
}

fn now_digits(now: UnixSeconds) -> String {
    now.to_string().replace(['-', ':', 'T'], "")
}

#[test]
fn a_machine_brings_every_endorsement_once() {
    let vendors = vendors();
    let machine = Machine::new(vendors, 2).unwrap();
    let files = machine.endorsements(vendors, vendors.now).unwrap();
    assert_eq!(files.rims.len(), 2);
    assert_eq!(files.ocsp.len(), 2 * 3 + 3);
    let names: std::collections::BTreeSet<_> = files.named().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 4 + 2 + 9);
    let reports = machine.gpu_reports([3; 32]).unwrap();
    assert_ne!(reports[0].chain_pem, reports[1].chain_pem);
    assert_eq!(reports[0].report[4..36], [3; 32]);
    for (_, text) in &files.rims {
        assert_rim_signed(std::str::from_utf8(text).unwrap());
    }
}
