//! Runtime events: what a guest writes into its fourth runtime register, as guest and verifier both compute it.

use super::crypto;
use super::digest::Digest;

/// The register that runtime events go to: RTMR3, which firmware leaves alone.
pub const RUNTIME_REGISTER: u8 = 3;
/// The event type of runtime events.
pub const RUNTIME_EVENT_TYPE: u32 = 0x0800_0001;
/// The name of the event that records which GPUs a guest attests.
pub const GPU_EVENT: &str = "claviger-gpus";

/// Computes the digest by which a runtime event extends its register.
///
/// Shape: SHA-384 of the event type as a little-endian u32, `:`, the name, `:`, the payload.
///
/// Source: dstack's form, confirmed by real logs that replay.
pub fn digest(name: &str, payload: &[u8]) -> Digest<48> {
    crypto::sha384(&[&RUNTIME_EVENT_TYPE.to_le_bytes(), b":", name.as_bytes(), b":", payload])
}

/// Computes the digest that records GPUs in RTMR3; the payload is the digest of their certificate chains
/// (`protocol::transcript::gpu_chains`).
pub fn gpus(payload: &Digest<48>) -> Digest<48> {
    digest(GPU_EVENT, payload.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two events of a real dstack log, which replays into RTMR3.
    #[test]
    fn the_digest_is_the_one_that_real_guests_extend() {
        let real = [
            (
                "system-preparing",
                "",
                "f9974020ef507068183313d0ca808e0d1ca9b2d1ad0c61f5784e7157c362c06536f5ddacdad4451693f48fcc72fff624",
            ),
            (
                "storage-fs",
                "zfs",
                "ba51104636900268b0e059fa3d266419d079d1e94aea26fb9fcbb8d764bf4c89a67ac271b8a0d1a3989945132a111fc7",
            ),
        ];
        for (name, payload, expected) in real {
            assert_eq!(digest(name, payload.as_bytes()).to_string(), expected);
        }
    }

    #[test]
    fn gpus_are_an_event_of_its_own_name() {
        let payload = Digest::new([7; 48]);
        assert_eq!(gpus(&payload), digest("claviger-gpus", &[7; 48]));
        assert_ne!(gpus(&payload), gpus(&Digest::new([8; 48])));
    }
}
