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
    SnpCertificateRevoked Authenticity "snp_certificate_revoked"
        "a certificate of the AMD chain is revoked"
        "fetch the chain of the product line again; if the revocation list names the certificate in use, the machine cannot be trusted"
    SnpChainIssuer Authenticity "snp_chain_issuer"
        "the certificate names an issuer that is not among the pinned AMD keys"
        "send the certificate that AMD's key distribution service issued for this chip and TCB"
    SnpChainNotPinned Authenticity "snp_chain_not_pinned"
        "a certificate sent as part of the AMD chain is not the pinned one of this product line"
        "send the chain of AMD's key distribution service for this product line, or none: it is only compared"
    SnpChainSignature Authenticity "snp_chain_signature"
        "the signature of a certificate of the AMD chain does not verify"
        "the certificate was altered or is not AMD's; fetch it again from AMD's key distribution service"
    SnpChipIdMasked Authenticity "snp_chip_id_masked"
        "the report hides its chip id, so that it cannot be tied to the chip's certificate"
        "have the host's MASK_CHIP_ID switched off, or use a VLEK where the policy allows it"
    SnpChipMismatch Authenticity "snp_chip_mismatch"
        "report and certificate are of different chips"
        "send the certificate of the chip that runs the guest; after a move to another machine fetch it again"
    SnpCrlMalformed Shape "snp_crl_malformed"
        "a revocation list does not parse"
        "send the list as AMD's key distribution service gives it: DER or PEM, complete and unaltered"
    SnpCrlMissing Unavailable "snp_crl_missing"
        "no revocation list of the AMD root was given"
        "give the CRL of the product line (in the service: put it into endorsements.dir)"
    SnpCrlNotYetValid Authenticity "snp_crl_not_yet_valid"
        "the revocation list has not begun"
        "the verifier's clock is probably behind; compare it with a time server"
    SnpCrlSignature Authenticity "snp_crl_signature"
        "the revocation list bears the root's name and not its signature"
        "the list was altered or is not AMD's; fetch it again from AMD's key distribution service"
    SnpCrlStale Authenticity "snp_crl_stale"
        "the revocation list has ended"
        "fetch the current CRL from AMD's key distribution service"
    SnpEndorsementsTooMany Shape "snp_endorsements_too_many"
        "more certificates or revocation lists were sent than a report can need"
        "send the certificate of the signing key, its chain and the CRL of its product line"
    SnpGenerationUnknown Shape "snp_generation_unknown"
        "the report does not say its CPU generation, and what it says is not the older one's"
        "update the firmware so that reports are of version 3 or later"
    SnpProductMismatch Authenticity "snp_product_mismatch"
        "report, certificate and issuer speak of different product lines"
        "send the certificate that AMD issued for this CPU"
    SnpProductUnknown Shape "snp_product_unknown"
        "the CPU or the certificate is of no supported product line"
        "use a machine of the lines Milan, Genoa (with Bergamo and Siena) or Turin"
    SnpReportLength Shape "snp_report_length"
        "an SEV-SNP report has another length than 1184 bytes"
        "send the report alone, as binary, without the header of the device's answer"
    SnpReportUnsigned Authenticity "snp_report_unsigned"
        "the report says that nobody signed it"
        "have the host's MASK_CHIP_KEY switched off and collect the report again"
    SnpReportVersion Shape "snp_report_version"
        "the version of the report is not supported"
        "reports of versions 2 to 5 are understood; an all-zero report means that the guest got none"
    SnpReservedNotZero Shape "snp_reserved_not_zero"
        "bytes of the report that must be zero are not"
        "the report was altered, or its firmware is newer than this verifier"
    SnpSignatureAlgorithm Shape "snp_signature_algorithm"
        "the report is signed with another algorithm than ECDSA P-384 with SHA-384"
        "the report was altered, or its firmware is newer than this verifier"
    SnpSignatureInvalid Authenticity "snp_signature_invalid"
        "the report's signature does not verify under the key of the certificate"
        "if chip and TCB of the certificate are the report's, the report was altered; collect it again"
    SnpSignerMismatch Authenticity "snp_signer_mismatch"
        "the report names another kind of signing key than the certificate has"
        "send the VCEK for a report signed with the VCEK and the VLEK for one signed with the VLEK"
    SnpSignerReserved Authenticity "snp_signer_reserved"
        "the report names a signing key without a meaning"
        "the report was altered, or its firmware is newer than this verifier"
    SnpTcbMismatch Authenticity "snp_tcb_mismatch"
        "the certificate's TCB does not match the reported TCB"
        "fetch the certificate for REPORTED_TCB; CURRENT_TCB is often higher and has another key"
    SnpTcbOrder Authenticity "snp_tcb_order"
        "the TCBs of the report are not in order: reported, committed, current"
        "the firmware of the machine contradicts itself; do not use the machine"
    SnpVekAlgorithm Shape "snp_vek_algorithm"
        "the certificate's key or signature is not of the kind that AMD uses"
        "send the certificate that AMD's key distribution service issued for this chip and TCB"
    SnpVekCriticalExtension Shape "snp_vek_critical_extension"
        "the certificate has a critical extension that is not understood"
        "send the certificate that AMD's key distribution service issued for this chip and TCB"
    SnpVekExtensionEncoding Shape "snp_vek_extension_encoding"
        "an AMD extension of the certificate has the wrong form"
        "send the certificate that AMD's key distribution service issued for this chip and TCB"
    SnpVekExtensionMissing Shape "snp_vek_extension_missing"
        "the certificate lacks an AMD extension"
        "send the certificate that AMD's key distribution service issued for this chip and TCB"
    SnpVekKind Shape "snp_vek_kind"
        "the certificate is neither a VCEK nor a VLEK, or claims to be both"
        "send the VCEK or VLEK itself, not a certificate of its chain"
    SnpVekMissing Unavailable "snp_vek_missing"
        "no certificate of the signing key was given"
        "give the VCEK or VLEK of this report"
    SnpVlekNotAllowed Policy "snp_vlek_not_allowed"
        "the report is signed with a cloud provider's key, which names no chip, and the policy does not allow it"
        "use a machine that signs with its VCEK, or allow the provider's CSP id in the policy"

    // NVIDIA GPU.

    // NVIDIA RIM and OCSP.

    // Messages, binding and facts.
    RequestMalformed Request "request_malformed"
        "the request is not what the schema demands"
        "compare the body with the protocol of this version; unknown, repeated or missing fields are refused"
    HeadMalformed Request "head_malformed"
        "the request head is not canonical JSON of the schema"
        "send the head as RFC 8785 canonical JSON; the agent of the same version does"
    FactsMalformed Floor "facts_malformed"
        "the facts document lacks a fact or holds one that is not known"
        "use the agent of the same version; every fact must be stated and have a known value"
    ChallengeInvalid Floor "challenge_invalid"
        "the challenge was not made by this service for this plane and store"
        "ask for a new challenge and collect the evidence for it"
    ChallengeExpired Floor "challenge_expired"
        "the challenge has ended before the request came"
        "ask for a new challenge; collecting evidence must take less than its life"
    ChallengeReused Floor "challenge_reused"
        "the challenge was redeemed by another request"
        "ask for a new challenge for each request"
    ProofInvalid Floor "proof_invalid"
        "the instance key of the request head did not sign this request"
        "send head, evidence and facts exactly as they were signed"
    ReceiptInvalid Request "receipt_invalid"
        "the receipt does not prove that the log holds this outcome"
        "ask the operator for the log's checkpoint; do not use the keys of this reply"
    ServiceNotPinned Request "service_not_pinned"
        "the answer is not signed by a key that the pinned roots certify"
        "check the pinned roots in the agent's configuration; somebody may stand between agent and service"
    SealedKeyInvalid Request "sealed_key_invalid"
        "a sealed key of the reply does not open"
        "ask again with a new challenge; if it persists, the service seals for another key"

    // Release policy.

    // Keys, leases, service.
    StoreCorrupt Unavailable "store_corrupt"
        "the store holds what this version did not write"
        "restore a good copy; `claviger audit verify` names what is wrong"
    StoreRowTampered Unavailable "store_row_tampered"
        "a row of the store was changed, moved or replaced from outside"
        "find out who has access to the database, then restore a good copy"
    StoreUnavailable Unavailable "store_unavailable"
        "the store cannot be reached or is full"
        "check the database and its disk; the service recovers by itself"
    ClockJumped Unavailable "clock_jumped"
        "the clock jumped, or lies below the highest time in the log"
        "set the clock of database and service by a time server"
}
