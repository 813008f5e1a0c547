//! The transcripts of design 5: what binds CPU report, GPU reports, facts and keys to one challenge.

use super::message::{CpuEvidence, Evidence, GpuEvidence};
use crate::wire::Digest;
use crate::wire::crypto;
use crate::wire::transcript::Transcript;

/// Derives the nonce that every GPU of the request must have signed.
pub fn gpu_nonce(nonce: &[u8; 32], head_hash: &Digest<48>, devices: usize) -> Digest<32> {
    Transcript::new("claviger/v1/gpu-nonce")
        .field(nonce)
        .field(head_hash.bytes())
        .number(count(devices))
        .sha256()
}

/// Computes the report data that the CPU report must carry.
pub fn report_data(
    nonce: &[u8; 32],
    head_hash: &Digest<48>,
    gpus: &[GpuEvidence],
    facts: &[u8],
) -> Digest<64> {
    let transcript = Transcript::new("claviger/v1/report-data").field(nonce).field(head_hash.bytes());
    devices(transcript, gpus).field(crypto::sha384(&[facts]).bytes()).sha512()
}

/// Computes what a guest with runtime registers records of its GPUs in one of them before its quote: the payload of
/// that event. It covers the certificate chains, and with them the keys that sign the reports, in the order of the
/// request.
///
/// A GPU's chain is the same in every answer until it is reset, so that one record stands for all requests of a boot:
/// one for each report would fill the log of a guest that renews for weeks. The reports are in the report data.
pub fn gpu_chains(gpus: &[GpuEvidence]) -> Digest<48> {
    let transcript = Transcript::new("claviger/v1/gpu-chains").number(count(gpus.len()));
    gpus.iter().fold(transcript, |chains, gpu| chains.field(crypto::sha384(&[&gpu.chain]).bytes())).sha384()
}

/// Adds the number of devices, and for each in order the digests of report and chain.
fn devices(mut transcript: Transcript, gpus: &[GpuEvidence]) -> Transcript {
    transcript = transcript.number(count(gpus.len()));
    for gpu in gpus {
        transcript = transcript
            .field(crypto::sha384(&[&gpu.report]).bytes())
            .field(crypto::sha384(&[&gpu.chain]).bytes());
    }
    transcript
}

/// Hashes the evidence and facts as sent, endorsements, logs and init data included.
pub fn evidence_digest(evidence: &Evidence, facts: &[u8]) -> Digest<48> {
    let CpuEvidence { kind, report, endorsements, event_log, runtime_log, init_data } = &evidence.cpu;
    let mut transcript = Transcript::new("claviger/v1/evidence").field(kind.text().as_bytes()).field(report);
    transcript = transcript.number(count(endorsements.len()));
    for endorsement in endorsements {
        transcript = transcript.field(&endorsement.0);
    }
    for beside in [event_log, runtime_log, init_data] {
        // A log that is not there is not an empty one.
        transcript = transcript.number(u64::from(beside.is_some()));
        transcript = beside.iter().fold(transcript, |transcript, beside| transcript.field(&beside.0));
    }
    transcript = transcript.number(count(evidence.gpus.len()));
    for gpu in &evidence.gpus {
        transcript = transcript.field(&gpu.report).field(&gpu.chain);
    }
    transcript.field(facts).sha384()
}

/// Stands in place of the evidence digest where a request carries no evidence: at the end of a lease.
pub fn no_evidence() -> Digest<48> {
    Transcript::new("claviger/v1/evidence-none").sha384()
}

/// Builds what the instance key signs.
pub fn proof(challenge: &[u8], head_hash: &Digest<48>, evidence: &Digest<48>) -> Vec<u8> {
    Transcript::new("claviger/v1/proof")
        .field(challenge)
        .field(head_hash.bytes())
        .field(evidence.bytes())
        .bytes()
}

/// Hashes a whole request: the same digest means the identical bundle.
pub fn bundle_digest(
    challenge: &[u8],
    head_hash: &Digest<48>,
    evidence: &Digest<48>,
    proof: &[u8],
) -> Digest<32> {
    Transcript::new("claviger/v1/bundle")
        .field(challenge)
        .field(head_hash.bytes())
        .field(evidence.bytes())
        .field(proof)
        .sha256()
}

/// Builds what the reply key signs; `body` is the canonical JSON of everything but the signature.
pub fn reply(challenge: &[u8], head_hash: &Digest<48>, body: &[u8]) -> Vec<u8> {
    Transcript::new("claviger/v1/reply").field(challenge).field(head_hash.bytes()).field(body).bytes()
}

/// Builds the HPKE `info` of a sealed key.
pub fn seal_info(challenge: &[u8], head_hash: &Digest<48>, policy: &Digest<32>, lease: &[u8; 16]) -> Vec<u8> {
    Transcript::new("claviger/v1/seal")
        .field(challenge)
        .field(head_hash.bytes())
        .field(policy.bytes())
        .field(lease)
        .bytes()
}

/// Builds the HPKE `aad` of a sealed key.
pub fn seal_aad(tenant: &str, key: &str, version: u32) -> Vec<u8> {
    Transcript::new("claviger/v1/seal-aad")
        .field(tenant.as_bytes())
        .field(key.as_bytes())
        .number(u64::from(version))
        .bytes()
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{Bytes, CpuKind};

    fn gpu(report: &[u8], chain: &[u8]) -> GpuEvidence {
        GpuEvidence { report: report.to_vec(), chain: chain.to_vec() }
    }

    #[test]
    fn report_data_moves_with_each_input() {
        let (nonce, head) = ([1; 32], Digest::new([2; 48]));
        let one = [gpu(b"r", b"c")];
        let base = report_data(&nonce, &head, &one, b"f");
        let two = [gpu(b"r", b"c"), gpu(b"s", b"d")];
        let swapped = [gpu(b"s", b"d"), gpu(b"r", b"c")];
        let others = [
            report_data(&[9; 32], &head, &one, b"f"),
            report_data(&nonce, &Digest::new([9; 48]), &one, b"f"),
            report_data(&nonce, &head, &[gpu(b"x", b"c")], b"f"),
            report_data(&nonce, &head, &[gpu(b"r", b"x")], b"f"),
            report_data(&nonce, &head, &[], b"f"),
            report_data(&nonce, &head, &two, b"f"),
            report_data(&nonce, &head, &swapped, b"f"),
            report_data(&nonce, &head, &one, b"x"),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(&base, other, "{at}");
            assert_eq!(others.iter().filter(|same| *same == other).count(), 1, "{at}");
        }
    }

    #[test]
    fn the_record_of_gpus_moves_with_each_chain_and_not_with_the_reports() {
        let base = gpu_chains(&[gpu(b"r", b"c"), gpu(b"s", b"d")]);
        let others = [
            gpu_chains(&[]),
            gpu_chains(&[gpu(b"r", b"c")]),
            gpu_chains(&[gpu(b"s", b"d"), gpu(b"r", b"c")]),
            gpu_chains(&[gpu(b"r", b"x"), gpu(b"s", b"d")]),
            gpu_chains(&[gpu(b"r", b"c"), gpu(b"s", b"x")]),
            gpu_chains(&[gpu(b"r", b"c"), gpu(b"s", b"d"), gpu(b"s", b"d")]),
        ];
        assert!(others.iter().all(|other| *other != base));
        assert_eq!(gpu_chains(&[gpu(b"x", b"c"), gpu(b"y", b"d")]), base);
    }

    #[test]
    fn the_evidence_digest_covers_both_logs_and_init_data_and_which_is_which() {
        let with = |beside: [Option<&[u8]>; 3]| {
            let [event_log, runtime_log, init_data] = beside.map(|one| one.map(|one| Bytes(one.to_vec())));
            let bare = CpuEvidence::without_logs(CpuKind::Tdx, b"quote".to_vec(), Vec::new());
            let cpu = CpuEvidence { event_log, runtime_log, init_data, ..bare };
            evidence_digest(&Evidence { cpu, gpus: Vec::new() }, b"f")
        };
        let (a, b) = (Some(&b"a"[..]), Some(&b"b"[..]));
        let all = [
            with([None, None, None]),
            with([Some(b""), None, None]),
            with([None, None, Some(b"")]),
            with([a, None, None]),
            with([None, a, None]),
            with([None, None, a]),
            with([None, None, b]),
            with([a, b, None]),
            with([b, a, None]),
            with([a, None, b]),
            with([None, a, b]),
            with([a, b, a]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().filter(|other| *other == one).count(), 1, "{at}");
        }
    }

    #[test]
    fn the_gpu_nonce_is_never_the_challenge_nonce() {
        let head = Digest::new([2; 48]);
        assert_ne!(gpu_nonce(&[1; 32], &head, 1).bytes(), &[1; 32]);
        assert_ne!(gpu_nonce(&[1; 32], &head, 1), gpu_nonce(&[1; 32], &head, 2));
    }
}
