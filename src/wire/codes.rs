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
