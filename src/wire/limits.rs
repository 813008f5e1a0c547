//! Bounds on foreign input: each with its unit and reason. A test stands on each side of every one.

/// Bytes of one certificate. The largest seen is 1,683 (ASVK).
pub const CERTIFICATE_LEN_MAX: usize = 8 * 1024;
/// Certificates in one PEM text. Device chains have five.
pub const PEM_CERTIFICATES_MAX: usize = 8;
/// Bytes of one PEM text: NVML's own bound for a chain.
pub const GPU_CHAIN_LEN_MAX: usize = 5120;
/// Bytes of a GPU or switch report: NVML's own bound.
pub const GPU_REPORT_LEN_MAX: usize = 8192;
/// Bytes of a CRL. Those seen have 890.
pub const CRL_LEN_MAX: usize = 64 * 1024;
/// Revoked entries of a CRL: AMD's have at most one. The smallest are 20 bytes, so this binds before the length does.
pub const CRL_ENTRIES_MAX: usize = 2048;
/// Bytes of an OCSP response. Those seen have about 1,000.
pub const OCSP_LEN_MAX: usize = 8 * 1024;
/// Bytes of a RIM document. Those seen have 18 to 26 KB.
pub const RIM_LEN_MAX: usize = 128 * 1024;
/// Devices in one request: eight GPUs and four switches, with room.
pub const DEVICES_MAX: usize = 16;
/// Bytes of the body of `/attest`, in base64: twelve devices, facts and a quote take a quarter of it, both logs at
/// their bounds half, init data at its bound an eighth.
pub const ATTEST_BODY_LEN_MAX: usize = 1280 * 1024;
/// Bytes of any other body on the guest listener.
pub const GUEST_BODY_LEN_MAX: usize = 16 * 1024;
/// Bytes of a policy document.
pub const POLICY_LEN_MAX: usize = 64 * 1024;
/// Depth of nesting in a JSON document.
pub const JSON_DEPTH_MAX: usize = 32;
/// Bytes of the facts document.
pub const FACTS_LEN_MAX: usize = 64 * 1024;
/// Bytes of the request head.
pub const HEAD_LEN_MAX: usize = 8 * 1024;
/// Keys asked for in one request.
pub const KEYS_MAX: usize = 16;
/// Bytes of a tenant key.
pub const TENANT_KEY_LEN_MAX: usize = 64 * 1024;
/// Bytes of a file that `verify` reads; a recorded request has `ATTEST_BODY_LEN_MAX`.
pub const EVIDENCE_FILE_LEN_MAX: usize = 1024 * 1024;
/// VCEKs and VLEKs sent with one SNP report: one is needed, a host's table has both kinds, each perhaps issued twice.
pub const SNP_VEKS_MAX: usize = 4;
/// Other certificates sent with one SNP report: ASK, ASVK and ARK, with room.
pub const SNP_CHAIN_MAX: usize = 8;
/// Revocation lists given for one SNP report: two paths for each of three lines, with room.
pub const SNP_CRLS_MAX: usize = 8;
/// Seconds by which an OCSP answer may seem to come from the future: how far a verifier's clock may be behind.
pub const OCSP_SKEW_S_MAX: i64 = 300;
/// Seconds for which an OCSP answer without nextUpdate is in force.
pub const OCSP_WITHOUT_NEXT_S_MAX: i64 = 3600;
/// Seconds for which an OCSP answer is in force at most: no nonce bounds its replay, so its age does. NVIDIA's answers
/// last exactly as long.
pub const OCSP_AGE_S_MAX: i64 = 24 * 3600;
/// Opaque fields of a GPU report. Those seen have at most 17; NVIDIA names 30.
pub const GPU_OPAQUE_FIELDS_MAX: usize = 64;
/// Bytes of a secret key file. Those written have at most 500.
pub const KEY_FILE_LEN_MAX: usize = 4 * 1024;
/// Bytes of `service.json`. Those written have about 4,000.
pub const SERVICE_FILE_LEN_MAX: usize = 32 * 1024;
/// Bytes of an enrolment as JSON: 64 KiB of key in base64url, the encapsulated key, the context.
pub const ENROLMENT_LEN_MAX: usize = 96 * 1024;
/// Bytes of a wrapped key: a tenant key with room for what a custodian adds.
pub const WRAPPED_KEY_LEN_MAX: usize = TENANT_KEY_LEN_MAX + 8 * 1024;
/// Bytes of the canonical body of a log entry: 16 devices with 19 checks each take less than half without their texts.
pub const ENTRY_LEN_MAX: usize = 128 * 1024;
/// Bytes, as JSON, of what the checks of one log entry expected and found: 16 GPUs whose measurements all differ fit.
/// With it every other member of an entry fits into `ENTRY_LEN_MAX`.
pub const ENTRY_CHECK_TEXTS_LEN_MAX: usize = 44 * 1024;
/// Bytes of a text in a log entry: a reason of three sentences.
pub const ENTRY_TEXT_LEN_MAX: usize = 512;
/// Findings that the verification of a log lists; further ones are counted.
pub const LOG_FINDINGS_MAX: usize = 1000;
/// Log keys that a log may have certified in its life: a rotation a month for eighty years.
pub const LOG_KEYS_MAX: usize = 1024;
/// Entries of one list in a policy: as many measurements as fit into `POLICY_LEN_MAX`, rounded.
pub const POLICY_LIST_MAX: usize = 512;
/// Characters of a text in a policy that is no id: a name, a person, a provider.
pub const POLICY_TEXT_LEN_MAX: usize = 200;
/// Bytes of the catalogue.
pub const CATALOGUE_LEN_MAX: usize = 64 * 1024;
/// Bytes of a reference set: as many events as `POLICY_LIST_MAX`, at 400 bytes each, with room.
pub const REFERENCE_SET_LEN_MAX: usize = 256 * 1024;
/// Bytes of a firmware image: what QEMU maps below 4 GiB at most.
pub const FIRMWARE_LEN_MAX: usize = 16 * 1024 * 1024;
/// Sections of a firmware's SNP metadata. Those seen have 4 to 7.
pub const FIRMWARE_SECTIONS_MAX: u32 = 64;
/// Pages of one such section: 16 MiB. The largest seen has 29 pages.
pub const FIRMWARE_SECTION_PAGES_MAX: u32 = 4096;
/// vCPUs of a guest that is measured: what KVM can have at most.
pub const VCPUS_MAX: u32 = 4096;
/// Bytes of a kernel that is measured. Those seen have 5 to 80 MB.
pub const KERNEL_LEN_MAX: u64 = 512 * 1024 * 1024;
/// Bytes of an initrd that is measured: one with a GPU driver and its libraries, with room.
pub const INITRD_LEN_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of a kernel's command line: the bound of x86 Linux.
pub const COMMAND_LINE_LEN_MAX: usize = 2048;
/// Bytes of a reply to the agent: 16 keys of 64 KiB in base64, with results and receipt.
pub const REPLY_LEN_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a file that the agent reads: its configuration, pins, certificates, state.
pub const AGENT_FILE_LEN_MAX: usize = 256 * 1024;
/// Certificates in the agent's file of TLS anchors. A company's bundle has a few.
pub const AGENT_ANCHORS_MAX: usize = 64;
/// Users that the agent's key socket serves beside its own.
pub const AGENT_SOCKET_PEERS_MAX: usize = 64;
/// Bytes of a container's termination message: Kubernetes keeps no more.
pub const TERMINATION_MESSAGE_LEN_MAX: usize = 4096;
/// Attempts after the first that an agent may be told to make: more is a loop.
pub const AGENT_RETRIES_MAX: u32 = 100;
/// Seconds that the agent waits between two attempts at most, whatever the service asks for.
pub const AGENT_WAIT_S_MAX: u32 = 600;
/// Members of one object in a vendor's JSON. Those seen have at most 11.
pub const JSON_MEMBERS_MAX: usize = 64;
/// Bytes of one set of Intel's collateral as JSON. Those seen have at most 21,321.
pub const COLLATERAL_LEN_MAX: usize = 256 * 1024;
/// Bytes of a TCB info or QE identity. Those seen have at most 6,251.
pub const TCB_INFO_LEN_MAX: usize = 64 * 1024;
/// TCB levels of a TCB info, of a TDX module or of the QE. Those seen have at most 5.
pub const TCB_LEVELS_MAX: usize = 64;
/// TDX modules named in a TCB info. Those seen have 2.
pub const TDX_MODULES_MAX: usize = 32;
/// Advisories of one TCB level. Those seen have at most 24.
pub const TCB_ADVISORIES_MAX: usize = 256;
/// Bytes of an advisory's id, such as `INTEL-SA-00837`.
pub const ADVISORY_LEN_MAX: usize = 32;
/// Bytes of the PEM text of an issuer chain in a collateral: two certificates.
pub const ISSUER_CHAIN_LEN_MAX: usize = 16 * 1024;
/// Bytes of a boot event log with its padding: the largest area that firmware sets aside. Those filled have 18,101.
pub const EVENT_LOG_LEN_MAX: usize = 256 * 1024;
/// Bytes of a runtime event log as JSON. Those seen have 9,710; the agent adds a record of some 280, and one more for
/// each reset of a GPU.
pub const RUNTIME_LOG_LEN_MAX: usize = 256 * 1024;
/// Bytes of init data: a guest's policy in Rego, which takes most of it, has some 60 KB, and more for each container.
pub const INIT_DATA_LEN_MAX: usize = 128 * 1024;
/// Texts in init data. Those seen have at most 3.
pub const INIT_DATA_TEXTS_MAX: usize = 64;
/// Records of one event log. Those seen have at most 44; a long GRUB script has some hundreds.
pub const EVENTS_MAX: usize = 2048;
/// Bytes of the data of one event: the list of revoked Secure Boot keys, with room. The largest seen has 4,499.
pub const EVENT_DATA_LEN_MAX: usize = 64 * 1024;
/// Bytes of a TDX quote with its padding. Those seen have 5 to 8 KB.
pub const TDX_QUOTE_LEN_MAX: usize = 16 * 1024;
/// Sets of collateral for one FMSPC that are looked at, newest first: the current one, the early one, and some that
/// they replaced.
pub const COLLATERAL_SETS_MAX: usize = 16;
/// Bytes of a report, quote or certificate table from configfs-tsm: the kernel's own bound.
pub const TSM_BLOB_LEN_MAX: usize = 32 * 1024;
/// Bytes of the certificate table from `/dev/sev-guest`: the kernel takes no larger buffer, and whole pages alone.
pub const SEV_TABLE_LEN_MAX: usize = 16 * 1024;
/// Rows of the host's certificate table. Six are known.
pub const SNP_TABLE_ROWS_MAX: usize = 16;
/// Certificates that are taken from it: as many as a request may carry.
pub const SNP_TABLE_CERTIFICATES_MAX: usize = 8;
/// Functions on the PCI bus of a guest: four thousand virtual functions are no guest's.
pub const PCI_FUNCTIONS_MAX: usize = 4096;
/// Processes on one GPU that are listed; of more the number is told.
pub const GPU_PROCESSES_MAX: usize = 256;
/// MIG slices of one GPU. Those known have at most 7.
pub const MIG_SLICES_MAX: u32 = 64;
/// Devices that a container runtime lists by files: eight GPUs in seven slices each. With the variables that are looked
/// for they fit into the hints of the facts.
pub const MOUNTED_DEVICES_MAX: usize = 56;
