//! The two words of bits in a report: what the guest asked for, and what the platform is.

use super::super::bits::bits;

/// The guest POLICY: what the guest's owner allowed and demanded at launch.
///
/// Source: AMD 56860, table Guest Policy Structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuestPolicy(pub u64);

bits! { GuestPolicy:
    /// SMT may be on.
    smt 16
    /// A bit that firmware wants to be 1.
    reserved_one 17
    /// The guest may be tied to a migration agent.
    migrate_ma 18
    /// The host may read and write the guest.
    debug 19
    /// The guest may run on one socket only.
    single_socket 20
    /// CXL devices may be present.
    cxl 21
    /// Memory must be encrypted with AES-256-XTS.
    mem_aes_256_xts 22
    /// RAPL must be off.
    rapl_dis 23
    /// Ciphertext hiding of DRAM must be on.
    ciphertext_hiding 24
    /// Moving and swapping of the guest's pages is off.
    page_swap_disable 25
}

impl GuestPolicy {
    /// Returns the least ABI version that the guest asked for: major, minor. Not the firmware's version.
    pub const fn abi(self) -> (u8, u8) {
        let [minor, major, ..] = self.0.to_le_bytes();
        (major, minor)
    }

    /// Returns the bits that must be 0 and are not: 63 to 26.
    pub const fn reserved(self) -> u64 {
        self.0 & !(Self::NAMED | 0xffff)
    }
}

/// PLATFORM_INFO: what the platform is.
///
/// Source: AMD 56860, table PLATFORM_INFO; bit 6 as seen on every Turin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlatformInfo(pub u64);

bits! { PlatformInfo:
    /// SMT is on.
    smt 0
    /// Transparent SME is on.
    tsme 1
    /// The memory has error correction.
    ecc 2
    /// RAPL is off.
    rapl_dis 3
    /// Ciphertext hiding of DRAM is on.
    ciphertext_hiding 4
    /// Memory was looked through for aliases since reset, and there are none (BadRAM).
    alias_check_complete 5
    /// Set on every Turin seen; said to mean that writes through the IOMMU are safe.
    iommu_write_safe 6
    /// SEV-TIO is on.
    sev_tio 7
}

impl PlatformInfo {
    /// Returns the bits that have no name here.
    pub const fn unknown(self) -> u64 {
        self.0 & !Self::NAMED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_debug_policy_reads_as_such() {
        let policy = GuestPolicy(0xb0000);
        assert!(policy.debug() && policy.smt() && policy.reserved_one());
        assert!(!policy.migrate_ma() && !policy.cxl() && !policy.page_swap_disable());
        assert_eq!(policy.reserved(), 0);
        assert_eq!(GuestPolicy(0x3_011f).abi(), (1, 0x1f));
    }

    #[test]
    fn bits_without_a_name_are_seen() {
        assert_eq!(GuestPolicy(1 << 26).reserved(), 1 << 26);
        assert_eq!(GuestPolicy(1 << 63 | 1 << 25).reserved(), 1 << 63);
        assert_eq!(PlatformInfo(0xff).unknown(), 0);
        assert_eq!(PlatformInfo(0x165).unknown(), 0x100);
        assert!(PlatformInfo(0x65).iommu_write_safe() && PlatformInfo(0x65).alias_check_complete());
        assert!(!PlatformInfo(u64::MAX).bit(64));
    }
}
