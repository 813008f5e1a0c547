//! The two words of bits in a TD report: what the TD is allowed and protected by, and which CPU state it uses.

use super::super::bits::bits;

/// TDATTRIBUTES: attributes that the host gave the TD at creation, measured by nothing but the quote.
///
/// Source: Intel TDX Module ABI Specification, table ATTRIBUTES; bits 4 to 6 and 16 to 22 as in its newer revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TdAttributes(pub u64);

bits! { TdAttributes:
    /// The host may read and write the TD's memory and state.
    debug 0
    /// The host may profile the TD's execution.
    hgs_plus_prof 4
    /// The host may read performance counters that the TD drives.
    perf_prof 5
    /// The host may read the platform's telemetry of the TD.
    pmt_prof 6
    /// A hardening: instructions' counts are hidden while single-stepping.
    icssd 16
    /// Service TDs are described by the extended fields.
    servtd_ext 17
    /// Linear address space separation is available.
    lass 27
    /// The host cannot inject #VE by taking pages away.
    sept_ve_disable 28
    /// A migration TD may move the TD to another platform.
    migratable 29
    /// Protection keys for supervisor pages are available.
    pks 30
    /// Key Locker is available.
    kl 31
    /// The TD is a provisioning agent of TDX Connect.
    tpa 62
    /// The TD may use performance monitoring.
    perfmon 63
}

impl TdAttributes {
    /// Bits that newer revisions of the ABI give meanings to.
    pub const NEWER: u64 = 0x007c_0000;
    /// Bits 1 to 3 and 7 (of the group under which a TD is not trusted), 8 to 15, 23 to 26, and 32 to 61.
    pub const RESERVED: u64 = !(Self::NAMED | Self::NEWER);

    /// Returns the profiling bits that are set: of one group with DEBUG, under which a TD is not trusted.
    pub const fn profiling(self) -> u64 {
        self.0 & 0x70
    }

    /// Returns the reserved bits that are set.
    pub const fn reserved(self) -> u64 {
        self.0 & Self::RESERVED
    }

    /// Returns bits 18 to 22 that are set.
    pub const fn newer(self) -> u64 {
        self.0 & Self::NEWER
    }
}

/// XFAM: the extended CPU state that the TD may use.
///
/// Source: Intel TDX Module ABI Specification, table XFAM; Intel SDM volume 1, chapter 13 (XCR0 and IA32_XSS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Xfam(pub u64);

bits! { Xfam:
    /// x87.
    x87 0
    /// SSE.
    sse 1
    /// AVX.
    avx 2
    /// AVX-512: opmask registers.
    avx512_opmask 5
    /// AVX-512: upper halves of ZMM0 to ZMM15.
    avx512_zmm_hi256 6
    /// AVX-512: ZMM16 to ZMM31.
    avx512_hi16_zmm 7
    /// Processor Trace: records what the TD runs.
    pt 8
    /// Protection keys for user pages.
    pku 9
    /// Control-flow enforcement in user mode.
    cet_u 11
    /// Control-flow enforcement in supervisor mode.
    cet_s 12
    /// User interrupts.
    uintr 14
    /// Last branch records: keep where the TD jumped.
    lbr 15
    /// AMX: tile configuration.
    amx_tilecfg 17
    /// AMX: tile data.
    amx_tiledata 18
}

impl Xfam {
    /// Returns the bits that have no name here.
    pub const fn unknown(self) -> u64 {
        self.0 & !Self::NAMED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_the_attributes_is_named_newer_or_reserved() {
        assert_eq!(TdAttributes::NAMED & TdAttributes::NEWER, 0);
        assert_eq!(TdAttributes::RESERVED, 0x3fff_ffff_0780_ff8e);
    }

    #[test]
    fn the_words_of_known_hosts_read_as_such() {
        let qemu = TdAttributes(0x1000_0000);
        assert!(qemu.sept_ve_disable() && !qemu.debug() && !qemu.migratable());
        assert_eq!((qemu.profiling(), qemu.reserved(), qemu.newer()), (0, 0, 0));
        let debug = TdAttributes(0x1000_0001);
        assert!(debug.debug());
        let profiled = TdAttributes(0x50);
        assert!(profiled.hgs_plus_prof() && profiled.pmt_prof() && !profiled.perf_prof());
        assert_eq!(profiled.profiling(), 0x50);
        assert_eq!(TdAttributes(1 << 61 | 1 << 22 | 1 << 1).reserved(), 1 << 61 | 1 << 1);
        for known in [0x6_00e7, 0x6_02e7, 0x6_18e7, 0x6_42e7, 0x6_1ae7] {
            let xfam = Xfam(known);
            assert!(xfam.x87() && xfam.sse() && !xfam.pt() && !xfam.lbr());
            assert_eq!(xfam.unknown(), 0, "{known:#x}");
        }
        assert_eq!(Xfam(1 << 10 | 3).unknown(), 1 << 10);
    }
}
