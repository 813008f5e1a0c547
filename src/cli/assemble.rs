//! Puts a service together: adapters to ports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::config::{Config, ListenerSection};
use super::{Failure, clock};
use crate::audit::verify::{Pins, Remembered, verify};
use crate::custody::{AnyCustodian, folder};
use crate::fetch::Folder;
use crate::govern::{Change, Permit, change};
use crate::http::listen::Wire;
use crate::identity::Identity;
use crate::protocol::role::Role;
use crate::release::ear::Issuer;
use crate::release::service::{Adapters, Ports, Service};
use crate::store::{Clock as StoreClock, Opening, RowMac, Store};
use crate::verify::{Roots, Verifier};
use crate::wire::code::Family;
use crate::wire::ids::Mode;
use crate::wire::time::Clock;
use crate::wire::txn::{StoreError, Transact as _};
use crate::wire::{Code, UnixSeconds};

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixSeconds {
        // A clock that cannot be read makes every window fail: nothing is granted.
        clock::now().unwrap_or(UnixSeconds::EPOCH)
    }
}

/// The adapters of the embedded service.
#[derive(Debug)]
pub struct Embedded;

impl Ports for Embedded {
    type Store = Store;
    type Custodian = AnyCustodian;
    type Source = Folder;
    type Clock = SystemClock;
}

/// Loads the identity of a folder.
///
/// Errors: `Failure::Usage` naming the file and the fix.
pub fn identity(dir: &Path) -> Result<Arc<Identity>, Failure> {
    let now = clock::now()?;
    folder::load(dir, now).map(Arc::new).map_err(Failure::usage)
}

/// Loads the identity of a folder whose certificates may have ended, for those who renew or show them.
///
/// Errors: `Failure::Usage` naming the file and the fix.
pub fn identity_of_any_date(dir: &Path) -> Result<Arc<Identity>, Failure> {
    folder::load_of_any_date(dir).map(Arc::new).map_err(Failure::usage)
}

/// Says how to open the store of an identity.
pub fn opening(path: &Path, identity: &Identity) -> Opening {
    Opening {
        path: path.to_path_buf(),
        row_mac: RowMac::new(identity.row().clone()),
        clock: StoreClock::Database,
    }
}

/// Turns what a store says into what a person can do.
pub fn store_failure(error: StoreError) -> Failure {
    failure(&error, error.code())
}

/// Turns an error with a code into what a person can do: where something is away the call is right and is made again.
pub fn failure(error: &impl std::fmt::Display, code: Code) -> Failure {
    let text = format!("{error} ({code})");
    match code.family() {
        Family::Unavailable => Failure::Unavailable(text),
        Family::Authenticity | Family::Floor | Family::Policy | Family::Request | Family::Shape => {
            Failure::Usage(text)
        }
    }
}

/// Makes a change in the name of whoever holds the service's folder, and records it.
///
/// Errors: `Failure` with the code; then nothing was written.
pub async fn changed(store: &Store, identity: &Arc<Identity>, by: &str, what: Change) -> Result<(), Failure> {
    let permit = Permit::local(identity, by, None);
    let made = change(store, identity.clone(), clock::now()?, permit, what).await;
    made.map(|recorded| drop(recorded.into_reply())).map_err(|error| failure(&error, error.code()))
}

/// Puts the service together, closed until its log is verified.
///
/// Errors: `Failure`, naming what is wrong and how to mend it.
pub async fn service(config: &Config, roots: Roots) -> Result<Arc<Service<Embedded>>, Failure> {
    let identity = identity(&config.service.dir)?;
    match (identity.mode(), config.service.danger_simulated_vendors) {
        (Mode::Real, false) | (Mode::Simulated, true) => {}
        (Mode::Real, true) => {
            return Err(Failure::Usage(
                "danger_simulated_vendors is set and the store was created as real; only a store made by \
                 `claviger init --simulated` may trust simulated vendors"
                    .to_string(),
            ));
        }
        (Mode::Simulated, false) => {
            return Err(Failure::Usage(
                "the store was created as simulated; set danger_simulated_vendors, or init a real one"
                    .to_string(),
            ));
        }
    }
    let store = Store::open(opening(&config.store(), &identity)).await.map_err(store_failure)?;
    if store.id() != identity.store() {
        return Err(Failure::Usage(format!(
            "expected store {} of this identity; the file holds store {}",
            identity.store(),
            store.id()
        )));
    }
    let custodian = folder::custodian(&config.service.dir, &identity).map_err(Failure::usage)?;
    let epoch =
        store.read::<_, StoreError, _>(|tx| tx.meta().map(|meta| meta.epoch)).await.map_err(store_failure)?;
    let issuer = Issuer { base: config.service.issuer.clone() };
    let pause = Duration::from_secs(config.endorsements.look_s.into());
    let source = Folder::new(&config.endorsements.dir).every(pause);
    let adapters = Adapters { store, custodian, source, clock: SystemClock };
    Ok(Arc::new(Service::new(adapters, identity, Verifier::new(roots), issuer, epoch)))
}

/// Verifies the whole log, and lets releases begin if it holds.
///
/// Errors: `Failure` naming the first fault; the service stays closed.
pub async fn open(
    service: &Arc<Service<Embedded>>,
    remembered: Option<Remembered>,
) -> Result<Option<Remembered>, Failure> {
    let identity = service.identity.clone();
    let certificate = identity.public().certificate(Role::Log).map_err(Failure::usage)?.clone();
    let report = service.store.read::<_, StoreError, _>(move |tx| {
        let log_keys = [certificate];
        let pins = Pins { roots: identity.public().pins(), log_keys: &log_keys, remembered };
        verify(tx, &pins)
    });
    let report = report.await.map_err(store_failure)?;
    match report.findings.first() {
        None => {
            service.open();
            Ok(report.signed)
        }
        Some(first) => Err(Failure::Unavailable(format!(
            "the audit log does not hold, so nothing is released: {first}; `claviger audit verify` lists everything"
        ))),
    }
}

/// Reads the TLS certificate of a listener.
///
/// Errors: `Failure::Usage` naming the file.
pub fn wire(section: &ListenerSection) -> Result<Wire, Failure> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let (Some(certificate), Some(key)) = (&section.tls_certificate, &section.tls_key) else {
        return Ok(Wire::Plain);
    };
    let wrong = |path: &Path, what: String| Failure::Usage(format!("{}: {what}", path.display()));
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::usage)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Wire::Tls(Arc::new(tls)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern;
    use crate::keys;
    use crate::keys::custodian::CustodyError;

    /// The exit status tells a script whether to try again.
    #[test]
    fn what_is_away_is_no_fault_of_the_call() {
        let store = govern::Error::Store(StoreError::Unavailable { what: "disk full".to_string() });
        assert!(matches!(failure(&store, store.code()), Failure::Unavailable(_)));
        let away = keys::Error::Custody(CustodyError::Throttled { retry_after_s: None });
        assert!(matches!(failure(&away, away.code()), Failure::Unavailable(_)));
        let long = keys::Error::KeyLength { actual_len: 2, max_len: 1 };
        assert!(matches!(failure(&long, long.code()), Failure::Usage(_)));
        let tenant: crate::wire::ids::TenantId = "acme".parse().unwrap();
        let foreign = govern::Error::PolicyNotActive { tenant };
        assert!(matches!(failure(&foreign, foreign.code()), Failure::Usage(_)));
    }
}
