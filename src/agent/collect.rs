//! From a challenge to the signed request, in the order of the protocol: boot log, head, facts, GPU evidence, the
//! GPUs' record in a runtime register, CPU evidence that commits to all of it, facts again.

use super::devices::{DeviceError, Devices, Interface};
use super::error::Error;
use super::instance::Instance;
use crate::protocol::facts::Facts;
use crate::protocol::head::{self, Operation, RequestHead};
use crate::protocol::message::{AttestRequest, Bytes, ChallengeReply, Evidence, GpuEvidence};
use crate::protocol::receipt::{KeptReceipt, Receipt};
use crate::protocol::{json, transcript};
use crate::wire::runtime_event::GPU_EVENT;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// Where the nonce stands in what a GPU signs: after the four bytes of the SPDM request's header.
const GPU_NONCE: std::ops::Range<usize> = 4..36;

/// A challenge as the service gave it.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// Given back verbatim.
    pub bytes: Vec<u8>,
    pub nonce: [u8; 32],
    pub expires_at: UnixSeconds,
}

impl Challenge {
    /// Reads the answer of `/attest/challenge`.
    ///
    /// Errors: `Protocol` for another shape; `NonceZero`.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let reply: ChallengeReply = json::parse("challenge", body, limits::GUEST_BODY_LEN_MAX)?;
        let nonce: [u8; 32] = reply.nonce.0.try_into().map_err(|nonce: Vec<u8>| Error::Reply {
            status: 200,
            what: format!("a nonce of {} bytes; expected 32", nonce.len()),
        })?;
        not_zero(&nonce, "the challenge's nonce")?;
        Ok(Self { bytes: reply.challenge.0, nonce, expires_at: reply.expires_at })
    }
}

/// What a request is about: the answer must be about exactly this.
#[derive(Clone, Debug)]
pub struct Asked {
    pub challenge: Challenge,
    pub head: RequestHead,
    /// The head as it is sent.
    pub head_bytes: Vec<u8>,
    pub head_hash: Digest<48>,
    /// The boot log that the head names.
    pub event_log: Option<Vec<u8>>,
    /// The init data of the guest's launch, if they are sent.
    pub init_data: Option<Vec<u8>>,
}

impl Asked {
    /// Writes the head for a challenge; it names the boot log that is sent, if one is.
    ///
    /// Errors: `Protocol`, if the head is longer than the service takes.
    pub fn new(
        challenge: Challenge,
        mut head: RequestHead,
        event_log: Option<Vec<u8>>,
    ) -> Result<Self, Error> {
        head.event_log = event_log.as_ref().map(|log| crypto::sha384(&[log]));
        let head_bytes = head.bytes()?;
        // What the service would refuse is told here, where the cause is known.
        RequestHead::parse(&head_bytes)?;
        let head_hash = head::head_hash(&head_bytes);
        Ok(Self { challenge, head, head_bytes, head_hash, event_log, init_data: None })
    }

    /// Keeps a receipt beside the request that it is about.
    pub fn keep(&self, receipt: Receipt, ciphertexts: Digest<32>) -> KeptReceipt {
        KeptReceipt::of(receipt, &self.challenge.bytes, &self.head_bytes, ciphertexts)
    }

    fn signed(&self, instance: &Instance, content: Option<(Evidence, Vec<u8>)>) -> AttestRequest {
        let digest = match &content {
            Some((evidence, facts)) => transcript::evidence_digest(evidence, facts),
            None => transcript::no_evidence(),
        };
        let proof = instance.sign(&transcript::proof(&self.challenge.bytes, &self.head_hash, &digest));
        let (evidence, facts) = content.map(|(evidence, facts)| (evidence, Bytes(facts))).unzip();
        AttestRequest {
            challenge: Bytes(self.challenge.bytes.clone()),
            head: Bytes(self.head_bytes.clone()),
            evidence,
            facts,
            proof: Bytes(proof.to_vec()),
        }
    }
}

/// Builds the request that carries no evidence: the end of a lease.
pub fn bare(asked: &Asked, instance: &Instance) -> AttestRequest {
    asked.signed(instance, None)
}

/// Collects evidence for the request, and returns it with the facts that it commits to.
///
/// Errors: `Device`, `FactsChanged`, `NonceZero`, `Protocol` for facts that the service would not take, `Folder` if the
/// lock fails.
pub fn collect(
    devices: &mut impl Devices,
    instance: &Instance,
    asked: &Asked,
) -> Result<(AttestRequest, Facts), Error> {
    let alone = instance.alone()?;
    let facts = devices.facts()?;
    let facts_bytes = facts.bytes()?;
    Facts::parse(&facts_bytes)?;
    let (nonce, count) = (&asked.challenge.nonce, facts.devices.len());
    let gpu_nonce = transcript::gpu_nonce(nonce, &asked.head_hash, count);
    not_zero(gpu_nonce.bytes(), "the GPUs' nonce")?;
    let gpus = devices.gpu_evidence(gpu_nonce.bytes())?;
    if gpus.len() != count {
        let what = format!("expected evidence of {count} GPUs; {} gave it", gpus.len());
        return Err(DeviceError::Failed { interface: Interface::Nvml, what }.into());
    }
    gpus.iter().try_for_each(fresh)?;
    let report_data = transcript::report_data(nonce, &asked.head_hash, &gpus, &facts_bytes);
    // Before the quote, which signs the register: so measured software tells which GPUs it asked. Whether it could is
    // seen from the log.
    devices.record(GPU_EVENT, transcript::gpu_chains(&gpus).bytes())?;
    let mut cpu = devices.cpu_evidence(report_data.bytes())?;
    cpu.event_log = asked.event_log.clone().map(Bytes);
    cpu.init_data = asked.init_data.clone().map(Bytes);
    unchanged(&facts, &devices.facts()?, asked.head.operation)?;
    drop(alone);
    let request = asked.signed(instance, Some((Evidence { cpu, gpus }, facts_bytes)));
    Ok((request, facts))
}

/// Refuses facts that differ from those that were sent.
///
/// What moves by itself is left out: utilisation always; in a renewal also the processes, since the workload runs.
///
/// Errors: `FactsChanged` naming the first difference.
pub fn unchanged(before: &Facts, after: &Facts, operation: Operation) -> Result<(), Error> {
    let settled = |facts: &Facts| {
        let mut facts = facts.clone();
        for device in &mut facts.devices {
            device.utilization_percent = 0;
            match operation {
                Operation::Release => {}
                Operation::Renew | Operation::End => device.compute_processes = 0,
            }
        }
        facts
    };
    let (before, after) = (settled(before), settled(after));
    let what = match () {
        () if before.driver_version != after.driver_version => "the driver version",
        () if before.pci_functions != after.pci_functions => "the PCI functions",
        () if before.devices.len() != after.devices.len() => "the number of GPUs",
        () if before.devices != after.devices => "the state of a GPU",
        () if before.ready != after.ready => "the ready state",
        () if before != after => "the mode of the system",
        () => return Ok(()),
    };
    Err(Error::FactsChanged { what })
}

/// Refuses evidence that nobody asked for: a binding that cannot pass a nonce leaves it at zero.
///
/// Errors: `NonceZero`; `Device` for a report that ends before its nonce.
pub fn fresh(gpu: &GpuEvidence) -> Result<(), Error> {
    match gpu.report.get(GPU_NONCE) {
        Some(nonce) => not_zero(nonce, "the nonce in a GPU's report"),
        None => {
            let what = format!("a report of {} bytes", gpu.report.len());
            Err(DeviceError::Failed { interface: Interface::Nvml, what }.into())
        }
    }
}

fn not_zero(nonce: &[u8], whose: &'static str) -> Result<(), Error> {
    match nonce.iter().all(|byte| *byte == 0) {
        true => Err(Error::NonceZero { whose }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::facts::{MultiGpu, PciFunction, Switch};

    fn facts() -> Facts {
        Facts::whole("550.90.07", &[])
    }

    #[test]
    fn a_zero_nonce_is_never_passed_on() {
        let reply = |nonce: &[u8]| ChallengeReply {
            challenge: Bytes(vec![1; 98]),
            nonce: Bytes(nonce.to_vec()),
            expires_at: UnixSeconds::EPOCH,
        };
        let parse = |nonce: &[u8]| Challenge::parse(&serde_json::to_vec(&reply(nonce)).unwrap());
        assert_eq!(parse(&[0; 32]).unwrap_err(), Error::NonceZero { whose: "the challenge's nonce" });
        assert!(parse(&[1; 31]).is_err());
        assert!(parse(&[1; 32]).is_ok());
    }

    #[test]
    fn a_report_without_a_nonce_is_not_sent() {
        let gpu = |report: Vec<u8>| GpuEvidence { report, chain: Vec::new() };
        let mut report = vec![1; 100];
        assert!(fresh(&gpu(report.clone())).is_ok());
        report[GPU_NONCE].fill(0);
        assert!(matches!(fresh(&gpu(report)), Err(Error::NonceZero { .. })));
        assert!(matches!(fresh(&gpu(vec![1; 35])), Err(Error::Device(_))));
    }

    #[test]
    fn every_change_of_the_system_is_a_change() {
        let changes: [fn(&mut Facts, PciFunction); 7] = [
            |facts, _| facts.driver_version.push('1'),
            |facts, function| facts.pci_functions.push(function),
            |facts, _| facts.confidential = Switch::Off,
            |facts, _| facts.devtools = Switch::On,
            |facts, _| facts.multi_gpu = MultiGpu::ProtectedPcie,
            |facts, _| facts.ready = Switch::On,
            |facts, _| facts.visible_devices = Some("all".to_string()),
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut after = facts();
            change(&mut after, PciFunction::of_gpu(1));
            let refused = unchanged(&facts(), &after, Operation::Renew);
            assert!(matches!(refused, Err(Error::FactsChanged { .. })), "{at}");
        }
        assert_eq!(unchanged(&facts(), &facts(), Operation::Release), Ok(()));
    }
}
