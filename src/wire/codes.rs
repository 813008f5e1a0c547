//! The table of codes: variant, family, text, meaning, hint.

use super::code::{Family, Row};

macro_rules! codes {
    ($($variant:ident $family:ident $text:literal $meaning:literal $hint:literal)*) => {
        /// A stable reason code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $meaning] $variant,)* }

        impl Code {
            /// Every code with its texts, in the order of declaration.
            pub const TABLE: &'static [Row] = &[
                $(Row { code: Code::$variant, text: $text, family: Family::$family, meaning: $meaning, hint: $hint },)*
            ];

            pub(super) fn row(self) -> &'static Row {
                match self { $(Code::$variant => const {
                    &Row { code: Code::$variant, text: $text, family: Family::$family, meaning: $meaning, hint: $hint }
                },)* }
            }
        }
    };
}

codes! {
    // Shared by all evidence.
    CertificateExpired Authenticity "certificate_expired"
        "a certificate of the chain has ended"
        "check the verifier's clock; if it is right, fetch the certificate again or move the workload to a machine whose certificate is in force"
    CertificateNotYetValid Authenticity "certificate_not_yet_valid"
        "a certificate of the chain has not begun"
        "the verifier's clock is probably behind; compare it with a time server"
    CertificateMalformed Shape "certificate_malformed"
        "a certificate does not parse"
        "send certificates as DER or PEM, complete and unaltered"
    ReportDataMismatch Floor "report_data_mismatch"
        "the CPU report does not commit to what was sent with it"
        "collect the evidence again for this challenge; a recording or a relayed report never matches"

    // AMD SEV-SNP.
    SnpCrlMissing Unavailable "snp_crl_missing"
        "no revocation list of the AMD root was given"
        "give the CRL of the product line (in the service: put it into endorsements.dir)"
    SnpCrlStale Authenticity "snp_crl_stale"
        "the revocation list is outside its window"
        "fetch the current CRL from AMD's key distribution service"

    // NVIDIA GPU.
    GpuArchitectureConflict Authenticity "gpu_architecture_conflict"
        "signed signs of the GPU name different architectures"
        "send report and chain of one and the same device, collected in one call"
    GpuArchitectureUnknown Authenticity "gpu_architecture_unknown"
        "the GPU is of an architecture that this version does not know"
        "use a Hopper or Blackwell GPU, or a version of claviger that knows this one"
    GpuChainLinkBroken Authenticity "gpu_chain_link_broken"
        "a certificate of the device chain is not issued and signed by the next one"
        "send the chain as the driver gives it, leaf first and unaltered"
    GpuChainMalformed Shape "gpu_chain_malformed"
        "the device chain is not a PEM text of exactly five certificates of the expected form"
        "send the attestation chain as the driver gives it, complete and unaltered"
    GpuChainRules Authenticity "gpu_chain_rules"
        "a certificate of the device chain is used for what it was not issued for"
        "send the chain as the driver gives it; if it is unaltered, report the device to its vendor"
    GpuCompositeKeyMismatch Authenticity "gpu_composite_key_mismatch"
        "the leaf certificate names another device key than the certificate above it has"
        "send the chain as the driver gives it; if it is unaltered, report the device to its vendor"
    GpuFieldMalformed Shape "gpu_field_malformed"
        "an opaque field of the GPU report has a wrong size or text"
        "send the report as the driver gives it; if it is unaltered, this driver may be newer than this version of claviger"
    GpuFieldMissing Shape "gpu_field_missing"
        "the GPU report lacks a field that verification needs"
        "send the report as the driver gives it; drivers before 550 are too old"
    GpuFieldRepeated Shape "gpu_field_repeated"
        "an opaque field stands twice in the GPU report"
        "send the report as the driver gives it, unaltered"
    GpuFwidMismatch Authenticity "gpu_fwid_mismatch"
        "the firmware id in the report is not the one in the leaf certificate"
        "send report and chain of one and the same device, collected in one call"
    GpuFwidMissing Authenticity "gpu_fwid_missing"
        "report or leaf certificate carries no firmware id, so firmware and key cannot be tied together"
        "use driver 550 or newer"
    GpuIdentityMalformed Authenticity "gpu_identity_malformed"
        "the device's certificates do not name one device in the vendor's form"
        "send the chain as the driver gives it; if it is unaltered, report the device to its vendor"
    GpuIndexConflict Floor "gpu_index_conflict"
        "driver and VBIOS reference documents both claim one measurement"
        "give the reference documents with exactly the ids that the report names"
    GpuMeasurementCount Shape "gpu_measurement_count"
        "the report's own count of measurements disagrees with its values"
        "collect the report again; if it repeats, report the device to its vendor"
    GpuMeasurementMismatch Floor "gpu_measurement_mismatch"
        "firmware measurements differ from the vendor's reference values"
        "fetch the newest reference documents; if it stays, reset or power-cycle the host and do not use the GPU meanwhile"
    GpuModeContradictory Floor "gpu_mode_contradictory"
        "the signed signs of the GPU's operating mode contradict one another"
        "set the mode again from the host, reset the GPU, and collect the evidence again"
    GpuModeNotSingle Policy "gpu_mode_not_single"
        "the GPU is in a multi-GPU mode, and one whole GPU is required"
        "set the GPU to single passthrough from the host"
    GpuModeUnknown Floor "gpu_mode_unknown"
        "the GPU report does not say in which operating mode the GPU is"
        "use a driver that reports the mode (Hopper: 550 or newer; Blackwell: opaque data version 1)"
    GpuNonceMismatch Authenticity "gpu_nonce_mismatch"
        "the GPU report does not carry the nonce that was asked for"
        "collect the GPU evidence again with the nonce of this challenge"
    GpuNonceZero Authenticity "gpu_nonce_zero"
        "the GPU report carries a nonce of zeros, so nobody asked for it"
        "use a collector that passes the nonce to the driver"
    GpuNvdec0Unknown Floor "gpu_nvdec0_unknown"
        "NVDEC0_STATUS is missing or neither enabled nor disabled"
        "send the report as the driver gives it; if it is unaltered, report the device to its vendor"
    GpuOpaqueVersion Shape "gpu_opaque_version"
        "the opaque data of the GPU report has a version that is not supported"
        "use a version of claviger that knows this driver"
    GpuReferenceEmpty Floor "gpu_reference_empty"
        "a reference document holds no active value to compare with"
        "give the reference documents with exactly the ids that the report names"
    GpuReportMalformed Shape "gpu_report_malformed"
        "the GPU report is not an SPDM 1.1 measurement report of the expected form"
        "send the report's bytes as the driver gives them, complete and unaltered"
    GpuReportTrailing Shape "gpu_report_trailing"
        "bytes follow the signature of the GPU report"
        "cut the report to the length that the driver states"
    GpuRootNotPinned Authenticity "gpu_root_not_pinned"
        "the device chain does not end in the pinned NVIDIA Device Identity CA"
        "send the chain as the driver gives it; a root of the same name with another key is not accepted"
    GpuSignatureInvalid Authenticity "gpu_signature_invalid"
        "the leaf key of the device chain did not sign the GPU report"
        "send report and chain of one and the same device, collected in one call and unaltered"
    GpuSwitchUnsupported Shape "gpu_switch_unsupported"
        "this is the evidence of an NVSwitch, which is not supported yet"
        "send GPU evidence of one whole GPU in single passthrough"

    // NVIDIA RIM and OCSP.
    OcspMissing Unavailable "ocsp_missing"
        "no revocation status of the GPU's certificates was given"
        "give the OCSP responses of the device chain and of the RIM signers"
    RimMissing Unavailable "rim_missing"
        "no reference document with the id that the GPU report names was given"
        "give the RIM; if NVIDIA has not published one for this driver or VBIOS yet, use a published version"
    RimProductMismatch Authenticity "rim_product_mismatch"
        "the reference document is about another chip"
        "give the reference documents with exactly the ids that the report names"
    RimVersionMismatch Authenticity "rim_version_mismatch"
        "the reference document is about another version of driver or VBIOS"
        "give the reference documents with exactly the ids that the report names"

    // Binding and facts.

    // Release policy.

    // Keys, leases, service.
}
