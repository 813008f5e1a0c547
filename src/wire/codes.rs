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
    KeyUnknown Request "key_unknown"
        "the tenant has no key of this id and version"
        "list the tenant's keys with `claviger key list`; enrol the key if it is missing"
    KeyDisabled Policy "key_disabled"
        "the key is disabled"
        "the tenant's operator can enable it again"
    KeyDestroyed Policy "key_destroyed"
        "the key is destroyed for good"
        "enrol a new version of the key; a destroyed one cannot be brought back"
    KeyTooLong Request "key_too_long"
        "the key is empty or longer than 64 KiB"
        "enrol 1 to 65,536 bytes; encrypt larger secrets under a key and enrol that"
    KeySelectorMismatch Request "key_selector_mismatch"
        "the selector of the key does not cover its id"
        "give the key id itself, or its beginning followed by one `*`"
    KeyContextOther Request "key_context_other"
        "the key was sealed or wrapped for another store, mode, tenant, key, version or selector"
        "enrol the key for the place where it is to be used"
    KeyEnrolmentInvalid Request "key_enrolment_invalid"
        "the enrolment does not open under the service's enrolment key"
        "fetch the service's present enrolment certificate, check it under the pinned roots and enrol again"
    KeyNotOpened Unavailable "key_not_opened"
        "a wrapped key does not open in the context of its row, or opens to something that is no key"
        "the row was changed or moved, or the custodian's key is another one; restore a good copy"
    KeyStale Unavailable "key_stale"
        "the key changed while it was being worked on"
        "try again; the key keeps its earlier state"
    CustodianDestroyed Unavailable "custodian_destroyed"
        "the custodian's wrapping key is destroyed or about to be"
        "cancel the deletion at the custodian at once; without its key the tenant keys are lost"
    CustodianDisabled Unavailable "custodian_disabled"
        "the custodian's wrapping key is disabled"
        "enable the wrapping key at the custodian; the service recovers by itself"
    CustodianOther Unavailable "custodian_other"
        "the key was wrapped by a custodian that this service does not use"
        "configure that custodian, or wrap the keys anew under the present one"
    CustodianRefused Unavailable "custodian_refused"
        "the custodian does not allow the service to use the wrapping key"
        "give the service's principal the right to wrap and unwrap with this key"
    CustodianThrottled Unavailable "custodian_throttled"
        "the custodian asks the service to slow down"
        "try again later; ask the custodian's operator for a higher quota if it persists"
    CustodianUnreachable Unavailable "custodian_unreachable"
        "the custodian cannot be reached"
        "check network and credentials; the service recovers by itself"
    CustodyExists Request "custody_exists"
        "the folder holds an identity, or the remains of an init that was stopped"
        "choose another folder; an identity is never overwritten"
    CustodyBusy Unavailable "custody_busy"
        "another process is changing the identity folder"
        "wait until the other command has ended"
    CustodyFileMissing Unavailable "custody_file_missing"
        "a file of the identity folder is missing"
        "check the path; `claviger init` makes a new identity, a backup brings back the old one"
    CustodyFileNotPlain Request "custody_file_not_plain"
        "a secret file or its folder is a link, a device or another thing that is no plain file or folder"
        "put the file itself in that place; links are not followed"
    CustodyFileTooOpen Request "custody_file_too_open"
        "a secret file or its folder can be reached by others than its owner"
        "give secret files mode 0600, folders 0700, and the owner that the service runs as"
    CustodyIo Unavailable "custody_io"
        "a file of the identity folder cannot be read or written"
        "check disk, path and rights"
    CustodyFileMalformed Shape "custody_file_malformed"
        "a secret file is empty or too long"
        "put back the file as claviger wrote it"
    LockdownFailed Unavailable "lockdown_failed"
        "core dumps cannot be switched off"
        "allow the process to lower its own limits; secrets must not reach a core file"
    IdentityMalformed Shape "identity_malformed"
        "a file of the service's identity does not have the form that claviger writes"
        "put back the file as claviger wrote it"
    IdentityOther Unavailable "identity_other"
        "a key file belongs to another kind, role, mode or store"
        "put each key file in its place; `claviger identity certify` makes a new key for a role"
    IdentityNotCertified Unavailable "identity_not_certified"
        "a certificate of the service does not hold under the pinned roots"
        "certify the key with one of the two roots: `claviger identity certify`"
    IdentityEnded Unavailable "identity_ended"
        "a certificate of the service has ended"
        "certify a new key with one of the two roots: `claviger identity certify`"
    IdentityNotBegun Unavailable "identity_not_begun"
        "a certificate of the service has not begun"
        "the clock is probably behind; compare it with a time server"
    CertifyRefused Request "certify_refused"
        "a root does not certify such a key or for such a time"
        "ask for 1 to 398 days, and give the public key of the role"
    RootForeign Request "root_foreign"
        "the root key given is none of the two that the service pins"
        "give the folder with root-a.key or root-b.key of this service"
    RandomnessUnavailable Unavailable "randomness_unavailable"
        "the system gives no randomness"
        "wait until the system's random source is ready"
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
