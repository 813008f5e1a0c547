//! Codes that no change of a bundle can cause, each with the test that covers it.

use claviger::wire::Code::{self, *};

const TOPOLOGY: &str = "src/verify/topology.rs";
const TDX: &str = "tests/it/floor/tdx.rs";
const UNPARSED: &str =
    "collateral_that_does_not_parse_is_passed_over_in_a_collection_and_named_where_it_was_picked";

/// What one request cannot show: the file and the test where it is shown.
pub const CODES: &[(Code, &str, &str)] = &[
    // Vendors' documents that a collection passes over: `verify` names them where somebody picked them.
    (SnpCrlMalformed, "tests/it/snp/alterations.rs", "what_does_not_parse_was_given_and_refuses"),
    (GpuListMalformed, "tests/it/cmd.rs", "each_command_shows_what_its_listing_says"),
    (GpuReferenceEmpty, "src/verify/reference.rs", "a_document_without_active_values_is_refused"),
    (OcspMalformed, "src/endorse/ocsp/tests.rs", "refuses_every_other_form"),
    (OcspUnauthorized, "tests/it/nvidia_simulated.rs", "a_responder_that_gives_no_answer_is_a_typed_error"),
    (OcspUnavailable, "tests/it/nvidia_simulated.rs", "a_responder_that_gives_no_answer_is_a_typed_error"),
    (RimEditionMismatch, "tests/it/rim.rs", "a_signed_document_of_another_product_or_kind_is_refused"),
    (RimMalformed, "tests/it/rim.rs", "every_document_is_judged_as_its_manifest_says"),
    (
        RimManufacturerMismatch,
        "src/verify/rim.rs",
        "another_product_edition_or_manufacturer_is_refused_with_its_own_code",
    ),
    (RimProductMismatch, "tests/it/rim.rs", "a_signed_document_of_another_product_or_kind_is_refused"),
    (RimVersionMismatch, "src/verify/gpu/tests.rs", "documents_are_those_that_the_report_names"),
    (TdxCollateralMalformed, TDX, UNPARSED),
    (TdxTcbInfoMalformed, TDX, UNPARSED),
    (TdxQeIdentityMalformed, TDX, UNPARSED),
    (TdxTcbStatusUnknown, TDX, UNPARSED),
    (TdxTcbInfoKind, TDX, UNPARSED),
    (TdxQeIdentityKind, TDX, UNPARSED),
    (TdxFmspcMismatch, TDX, "collateral_of_another_model_that_was_picked_refuses"),
    // Bundles of other projects, which `verify bundle` recognises; none reaches the service.
    (
        BindingSchemeForeign,
        "tests/it/combined.rs",
        "a_bundle_of_tinfoil_is_verified_in_its_parts_and_refused_for_its_binding_alone",
    ),
    // Evidence that the simulated vendors do not mint.
    (GpuIdentityMalformed, "src/verify/gpu/tests.rs", "the_identity_is_that_of_a_gpu_in_its_form"),
    (GpuSwitchUnsupported, "src/verify/switch/tests.rs", "one_kind_of_device_never_stands_in_for_the_other"),
    // Switches and whole nodes, which `verify gpu` judges and no profile serves yet.
    (GpuSwitchExpected, "src/verify/switch/tests.rs", "one_kind_of_device_never_stands_in_for_the_other"),
    (
        GpuSwitchPdiMismatch,
        "src/verify/switch/tests.rs",
        "the_identity_is_that_of_a_switch_in_its_form_and_the_report_repeats_it",
    ),
    (GpuTopologyArchitecture, TOPOLOGY, "each_mode_belongs_to_its_architecture"),
    (GpuTopologyGpuCount, TOPOLOGY, "protected_pcie_has_exactly_eight_gpus_and_four_switches"),
    (GpuTopologyGpuLinks, TOPOLOGY, "each_switch_lists_exactly_eight_different_gpus"),
    (GpuTopologyGpusDiffer, TOPOLOGY, "the_gpus_that_switches_list_are_those_shown"),
    (GpuTopologyMode, TOPOLOGY, "all_devices_are_in_one_mode"),
    (GpuTopologySwitchCount, TOPOLOGY, "protected_pcie_has_exactly_eight_gpus_and_four_switches"),
    (GpuTopologySwitchLinks, TOPOLOGY, "each_gpu_names_exactly_four_different_switches"),
    (GpuTopologySwitchSetsDiffer, TOPOLOGY, "all_gpus_name_the_same_switches_and_those_are_shown"),
    (GpuTopologySwitchUnlocked, TOPOLOGY, "every_switch_is_locked"),
    (GpuTopologySwitchesDiffer, TOPOLOGY, "all_gpus_name_the_same_switches_and_those_are_shown"),
    (SnpVekAlgorithm, "src/endorse/vek.rs", "refuses_other_algorithms_and_critical_extensions"),
    // What needs another machine, another clock or a second request.
    (ChallengeExpired, "tests/it/floor.rs", "a_challenge_is_ours_alive_and_as_young_as_the_policy_says"),
    (ChallengeInvalid, "tests/it/floor.rs", "a_challenge_is_ours_alive_and_as_young_as_the_policy_says"),
    (ChallengeOld, "tests/it/floor.rs", "a_challenge_is_ours_alive_and_as_young_as_the_policy_says"),
    (
        MilanNotAccepted,
        "tests/it/floor/lines.rs",
        "milan_is_refused_unless_its_risk_is_accepted_by_name_and_date",
    ),
    (
        RiskAcceptanceExpired,
        "tests/it/floor/lines.rs",
        "milan_is_refused_unless_its_risk_is_accepted_by_name_and_date",
    ),
    // Warnings of a grant.
    (GpuReadyEarly, "tests/it/floor/facts.rs", "a_gpu_that_was_made_ready_early_is_granted_with_a_warning"),
    (SnpSmtOn, "tests/it/floor.rs", "a_request_in_order_is_granted_live_and_as_a_recording"),
];

/// What the service, its keys, its store, its log and the agent refuse after or beside the judgement; each room tests
/// its own.
pub const BESIDE: &[Code] = &[
    // A second request, or another guest's lease.
    ChallengeReused,
    GpuHeldByOtherLease,
    GpuHeldByOwnTenant,
    LeaseEnded,
    LeaseOtherDevices,
    LeaseUnknown,
    ReplyLost,
    ReservationLapsed,
    // Operators' changes.
    Frozen,
    KeyDestroyed,
    KeyDisabled,
    QuotaDenials,
    ServiceBusy,
    QuotaReservations,
    SecurityEpoch,
    // Keys, custodians, the service's own identity.
    CustodianDestroyed,
    CustodianDisabled,
    CustodianOther,
    CustodianRefused,
    CustodianThrottled,
    CustodianUnreachable,
    CustodyBusy,
    CustodyFileMalformed,
    CustodyFileMissing,
    CustodyIo,
    IdentityEnded,
    IdentityMalformed,
    IdentityNotBegun,
    IdentityNotCertified,
    IdentityOther,
    KeyNotOpened,
    LockdownFailed,
    RandomnessUnavailable,
    // Store and log.
    ClockJumped,
    LogCheckpointInvalid,
    LogCheckpointMissing,
    LogEntryAltered,
    LogEntryDropped,
    LogEntryMalformed,
    LogEntryReordered,
    LogEntryUnwritable,
    LogForked,
    LogKeyUncertified,
    LogNodeAltered,
    LogNotVerified,
    LogOfOtherStore,
    LogOlderCopy,
    LogRootMismatch,
    LogSizeMismatch,
    LogTimeBackwards,
    LogTruncated,
    StoreCorrupt,
    StoreRowTampered,
    StoreUnavailable,
    // The agent's own.
    AgentClockWrong,
    AgentDenialUnsigned,
    AgentDeviceUnavailable,
    AgentLeaseLapsed,
    AgentNonceZero,
    AgentReplyMalformed,
    AgentServiceUnreachable,
    AgentToldToEnd,
    FactsChanged,
];

/// The last line of defence: said where claims are not verified though no check says why. No request is known to reach
/// it; `policy::decide` keeps it so that such a one is denied and not granted.
pub const UNREACHED: &[Code] = &[EvidenceIncomplete];
