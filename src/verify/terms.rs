//! The words of evidence that rooms above speak of without reading evidence themselves.

pub use super::tdx::tcb::Tcb as TdxTcb;
pub use crate::endorse::pck::Configuration as PckConfiguration;
pub use crate::endorse::{ComponentStatus, Pck, TcbStatus};
pub use crate::evidence::event_log::{Content, Event, EventLog, EventType, Label};
pub use crate::evidence::gpu::{Architecture, DriverVersion, Mode as GpuMode, VbiosVersion};
pub use crate::evidence::snp::{
    Cpuid, Fields as SnpFields, FirmwareVersion, GuestPolicy, Line, PlatformInfo, Signer, Tcb,
};
pub use crate::evidence::tdx::{BodyForm, TdAttributes, TdReport, Xfam};
