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

    // Binding and facts.

    // Release policy.

    // Keys, leases, service.
}
