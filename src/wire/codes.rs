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
    LogCheckpointInvalid Authenticity "log_checkpoint_invalid"
        "a checkpoint of the log is not signed by a certified log key, or is of another log or size"
        "check which roots are pinned; with the right ones, somebody replaced the checkpoint"
    LogCheckpointMissing Authenticity "log_checkpoint_missing"
        "the log holds entries that no signed checkpoint covers, or no checkpoint at all"
        "copy the whole database, with its `-wal` file, and verify again"
    LogEntryAltered Authenticity "log_entry_altered"
        "an entry of the log is not the one that was hashed"
        "treat the entry as evidence of tampering; compare with an older copy"
    LogEntryDropped Authenticity "log_entry_dropped"
        "an entry of the log is missing"
        "treat the gap as evidence of tampering; an older copy may hold the entry"
    LogEntryMalformed Authenticity "log_entry_malformed"
        "an entry of the log does not have the form that this version writes"
        "verify with the newest version; if it persists, the entry was written by something else"
    LogEntryReordered Authenticity "log_entry_reordered"
        "an entry of the log stands at another place than it was written to"
        "treat the order as evidence of tampering; compare with an older copy"
    LogEntryUnwritable Unavailable "log_entry_unwritable"
        "an entry of the log cannot be written in its bounds"
        "nothing was released; report what was asked for, since every request that passes its own bounds must fit"
    LogForked Authenticity "log_forked"
        "the log does not contain the checkpoint that was remembered"
        "somebody replaced the log by another one; compare the copies that different people hold"
    LogIndexOutside Request "log_index_outside"
        "the log has no such entry or size yet"
        "ask for an index below the size of the newest checkpoint"
    LogKeyUncertified Authenticity "log_key_uncertified"
        "a certificate of a log key is not signed by a pinned root"
        "check which roots are pinned and whose certificate was given"
    LogNodeAltered Authenticity "log_node_altered"
        "a stored node of the hash tree is not what its leaves lead to"
        "proofs from this copy fail; restore a good copy"
    LogOfOtherStore Authenticity "log_of_other_store"
        "the log was begun by another store than the pinned one"
        "check which store the pinned roots belong to"
    LogOlderCopy Authenticity "log_older_copy"
        "the log is shorter than the checkpoint that was remembered"
        "an older copy of the database was put in place; find the newer one"
    LogRootMismatch Authenticity "log_root_mismatch"
        "the entries do not lead to the root that was signed"
        "entries were replaced together with their hashes; compare with an older copy"
    LogSizeMismatch Authenticity "log_size_mismatch"
        "the store states another size of the log than it holds"
        "entries were added or removed from outside; compare with an older copy"
    LogTimeBackwards Authenticity "log_time_backwards"
        "an entry is older than the one before it"
        "entries were replaced or reordered; compare with an older copy"
    LogTruncated Authenticity "log_truncated"
        "the newest entries of the log are missing"
        "treat the end of the log as cut off; an older copy or a witness may know more"
}
