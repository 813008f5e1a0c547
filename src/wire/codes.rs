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
    GpuOnHold Authenticity "gpu_on_hold"
        "a certificate of the GPU's chain is suspended by NVIDIA"
        "take the device out of service and ask NVIDIA; no policy accepts a device on hold"
    GpuRevoked Authenticity "gpu_revoked"
        "a certificate of the GPU's chain is revoked by NVIDIA"
        "take the device out of service; it must not be given keys again"
    OcspMalformed Shape "ocsp_malformed"
        "an OCSP answer does not parse"
        "give the responder's answer as DER, complete and unaltered; a proxy may have answered with a page of its own"
    OcspMissing Unavailable "ocsp_missing"
        "no OCSP answer was given for a certificate that has to be asked for"
        "fetch the answer from NVIDIA's responder (in the service: put it into endorsements.dir); until then nothing is decided"
    OcspResponderInvalid Authenticity "ocsp_responder_invalid"
        "the certificate that signed an OCSP answer may not speak for the issuer of the certificate asked for"
        "fetch the answer again; if it recurs, something between here and NVIDIA's responder answers in its place"
    OcspSignatureInvalid Authenticity "ocsp_signature_invalid"
        "the signature of an OCSP answer does not verify"
        "fetch the answer again; the bytes were altered after the responder signed them"
    OcspStale Authenticity "ocsp_stale"
        "an OCSP answer is outside its window"
        "fetch a new answer from NVIDIA's responder; if it is new, compare the verifier's clock with a time server"
    OcspUnauthorized Authenticity "ocsp_unauthorized"
        "the OCSP responder does not answer for this issuer"
        "check that the configured responder is NVIDIA's and that device leaf and roots are not asked for"
    OcspUnavailable Unavailable "ocsp_unavailable"
        "the OCSP responder gave no answer"
        "try again later; check the configured responder and its bearer key"
    OcspUnknownStatus Authenticity "ocsp_unknown_status"
        "the OCSP responder does not know the certificate"
        "refuse the device or document: a certificate that its issuer does not know is not good"
    RimChainInvalid Authenticity "rim_chain_invalid"
        "the certificates of a RIM do not form a chain of NVIDIA's shape"
        "fetch the RIM again from NVIDIA's service; no configuration makes this document acceptable"
    RimDigestMismatch Authenticity "rim_digest_mismatch"
        "the content of a RIM is not what its signature speaks of"
        "fetch the RIM again from NVIDIA's service; this one was altered after signing"
    RimEditionMismatch Authenticity "rim_edition_mismatch"
        "a RIM is for another kind of device"
        "fetch the RIM whose id follows from the report"
    RimMalformed Shape "rim_malformed"
        "a RIM is not written in the form that NVIDIA's documents have"
        "give the XML document as NVIDIA serves it, base64 removed and otherwise unaltered"
    RimManufacturerMismatch Authenticity "rim_manufacturer_mismatch"
        "a RIM names another manufacturer than NVIDIA"
        "fetch the RIM whose id follows from the report"
    RimMissing Unavailable "rim_missing"
        "no RIM was given for the driver or VBIOS of the device"
        "fetch the RIM by its id (in the service: put it into endorsements.dir); NVIDIA publishes some weeks after a release"
    RimProductMismatch Authenticity "rim_product_mismatch"
        "a RIM is for another chip"
        "fetch the RIM whose id follows from the report; Blackwell drivers need the id that begins with NV_GPU_CC_DRIVER"
    RimRootUnknown Authenticity "rim_root_unknown"
        "a RIM ends in another root than the pinned one"
        "fetch the RIM from NVIDIA's service; documents signed under debug roots are never accepted"
    RimSignatureInvalid Authenticity "rim_signature_invalid"
        "the signature of a RIM does not verify"
        "fetch the RIM again from NVIDIA's service; this one was altered after signing"
    RimSignerExpired Authenticity "rim_signer_expired"
        "a certificate of the RIM's signer chain has ended"
        "fetch the RIM again: NVIDIA signs documents anew when a signer nears its end; if that one has ended too, move to a driver or VBIOS whose RIM is in force"
    RimSignerNotYetValid Authenticity "rim_signer_not_yet_valid"
        "a certificate of the RIM's signer chain has not begun"
        "the verifier's clock is probably behind; compare it with a time server"
    RimSignerOnHold Authenticity "rim_signer_on_hold"
        "a certificate of the RIM's signer chain is suspended by NVIDIA"
        "move to another driver or VBIOS; a policy may accept a signer on hold until a date it names"
    RimSignerRevoked Authenticity "rim_signer_revoked"
        "a certificate of the RIM's signer chain is revoked by NVIDIA"
        "fetch the RIM again: NVIDIA signs documents anew with another signer"
    RimVersionMismatch Authenticity "rim_version_mismatch"
        "a RIM is for another driver, VBIOS or switch BIOS version"
        "fetch the RIM whose id follows from the report; a neighbouring version never stands in"

    // Binding and facts.

    // Release policy.

    // Keys, leases, service.
}
