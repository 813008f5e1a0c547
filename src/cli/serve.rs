//! `claviger serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::assemble::{self, Embedded};
use super::config::Config;
use super::{Failure, Status, lockdown, remembered};
use crate::audit::ledger::Ledger as _;
use crate::audit::verify::Remembered;
use crate::http::{guest, health, listen, log, operator};
use crate::release::service::Service;
use crate::release::strangers::Counted;
use crate::verify::Roots;
use crate::wire::time::Clock as _;
use crate::wire::txn::{StoreError, Transact as _};

/// Seconds between two looks after the service.
const TEND_S: u64 = 1;
/// Looks between two notes of the log's newest checkpoint outside the database.
const REMEMBER_BEATS: u64 = 5;
/// Looks between two notes of how new the endorsements are.
const MARK_BEATS: u64 = 5;
/// Looks between two sweeps.
const SWEEP_BEATS: u64 = 10;
/// Looks between two warnings of certificates that end: an hour.
const WARN_BEATS: u64 = 3_600;
/// Seconds for which windows of quotas are kept; the longest is a minute.
const QUOTAS_KEPT_S: i64 = 3_600;

#[derive(Args)]
pub struct Serve {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Trust anchors of simulated vendors, a folder of certificates; needs `danger_simulated_vendors`.
    #[cfg(feature = "sim")]
    #[arg(long, value_name = "DIR")]
    simulated_roots: Option<PathBuf>,
    /// Ends the process at a named point of the release stair: for crash tests.
    #[cfg(feature = "danger-fault-points")]
    #[arg(long, value_name = "POINT")]
    danger_fault_point: Option<String>,
}

impl Serve {
    pub fn run(self) -> Result<Status, Failure> {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_writer(std::io::stderr)
            .json()
            .init();
        let config = Config::read(&self.config)?;
        match lockdown::lock_down()? {
            lockdown::Memory::Locked => {}
            lockdown::Memory::Unlocked => {
                tracing::warn!(
                    "memory is not locked; raise the limit on locked memory to keep secrets out of swap"
                );
            }
        }
        #[cfg(feature = "danger-fault-points")]
        if let Some(point) = &self.danger_fault_point {
            if !crate::release::fault::POINTS.contains(&point.as_str()) {
                return Err(Failure::Usage(format!("--danger-fault-point: there is no point {point}")));
            }
            crate::release::fault::arm(point);
        }
        let roots = self.roots(&config)?;
        let runtime = super::runtime()?;
        runtime.block_on(serve(config, roots))
    }

    #[cfg(feature = "sim")]
    fn roots(&self, config: &Config) -> Result<Roots, Failure> {
        match (&self.simulated_roots, config.service.danger_simulated_vendors) {
            (Some(dir), true) => super::roots::simulated(dir),
            (Some(_), false) => Err(Failure::Usage(
                "--simulated-roots needs danger_simulated_vendors in the configuration".to_string(),
            )),
            (None, true) => Err(Failure::Usage(
                "danger_simulated_vendors is set; give the anchors with --simulated-roots".to_string(),
            )),
            (None, false) => super::roots::pinned(),
        }
    }

    #[cfg(not(feature = "sim"))]
    fn roots(&self, config: &Config) -> Result<Roots, Failure> {
        match config.service.danger_simulated_vendors {
            true => Err(Failure::Usage("this build has no simulated vendors".to_string())),
            false => super::roots::pinned(),
        }
    }
}

async fn serve(config: Config, roots: Roots) -> Result<Status, Failure> {
    let running = start(&config, roots).await?;
    let Addresses { guest, operator, health } = running.addresses;
    tracing::info!(%guest, %operator, %health, "listening");
    let endorsements = &config.endorsements.dir;
    if !endorsements.is_dir() {
        let dir = endorsements.display();
        tracing::warn!(%dir, "endorsements.dir is no folder; nothing is released without endorsements");
    }
    told_to_end().await?;
    tracing::info!("stopping");
    running.stop().await;
    Ok(Status::Good)
}

/// Waits for SIGTERM or SIGINT.
///
/// Errors: `Failure::Usage` where the system gives no signals.
pub async fn told_to_end() -> Result<(), Failure> {
    let unusable = |error: std::io::Error| Failure::Usage(error.to_string());
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(unusable)?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(unusable),
    }
}

/// Where a service listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub guest: SocketAddr,
    pub operator: SocketAddr,
    pub health: SocketAddr,
}

/// A service in operation.
pub struct Running {
    pub addresses: Addresses,
    #[cfg(feature = "sim")]
    pub service: Arc<Service<Embedded>>,
    stop: watch::Sender<bool>,
    tending: JoinHandle<()>,
}

impl Running {
    /// Stops listening and waits for what is in progress.
    pub async fn stop(self) {
        // Nobody listens any more if every task is over already.
        self.stop.send_replace(true);
        ended(self.tending).await;
    }
}

async fn ended(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::warn!(%error, "a listener ended badly");
    }
}

/// Starts the listeners, verifies the log, and lets releases begin.
///
/// Errors: `Failure`.
pub async fn start(config: &Config, roots: Roots) -> Result<Running, Failure> {
    let (guest_wire, operator_wire) = (assemble::wire(&config.guest)?, assemble::wire(&config.operator)?);
    let service = assemble::service(config, roots).await?;
    let memory = remembered::Memory::new(&config.service.dir);
    let seen = memory.read()?;
    let (stop, stopped) = watch::channel(false);
    let bind = |address: SocketAddr| async move {
        TcpListener::bind(address)
            .await
            .map_err(|error| Failure::Usage(format!("{address} cannot be listened on: {error}")))
    };
    let listeners = [
        bind(config.guest.listen).await?,
        bind(config.operator.listen).await?,
        bind(config.health.listen).await?,
    ];
    let address = |listener: &TcpListener| listener.local_addr().map_err(Failure::usage);
    let addresses = Addresses {
        guest: address(&listeners[0])?,
        operator: address(&listeners[1])?,
        health: address(&listeners[2])?,
    };
    let [guest_listener, operator_listener, health_listener] = listeners;
    let operator_routes = operator::routes(service.clone()).merge(log::routes(service.clone()));
    let listeners = vec![
        tokio::spawn(listen::serve(
            guest_listener,
            guest_wire,
            config.guest.bounds(),
            guest::routes(service.clone()),
            stopped.clone(),
        )),
        tokio::spawn(listen::serve(
            operator_listener,
            operator_wire,
            config.operator.bounds(),
            operator_routes,
            stopped.clone(),
        )),
        tokio::spawn(listen::serve(
            health_listener,
            listen::Wire::Plain,
            listen::Bounds::default(),
            health::routes(service.clone()),
            stopped.clone(),
        )),
    ];
    if let Some(signed) = assemble::open(&service, seen).await? {
        memory.write(&signed)?;
    }
    mark(&service, &mut Vec::new()).await;
    let tending = tokio::spawn(tend(service.clone(), memory, listeners, stopped));
    Ok(Running {
        addresses,
        #[cfg(feature = "sim")]
        service,
        stop,
        tending,
    })
}

/// Looks after the service while it runs: verifies the log again after a fault, notes the newest checkpoint outside the
/// database so that an older copy of it is recognised, records leases that lapsed and strangers that were counted,
/// sweeps what is over. When the service stops, count and checkpoint are noted once the listeners have ended.
async fn tend(
    service: Arc<Service<Embedded>>,
    memory: remembered::Memory,
    listeners: Vec<JoinHandle<()>>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut beat: u64 = 0;
    let mut older = Vec::new();
    warn(&service);
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            () = tokio::time::sleep(Duration::from_secs(TEND_S)) => {}
        }
        beat = beat.wrapping_add(1);
        if !service.is_open() {
            reopen(&service, &memory).await;
        }
        // The head of a log that is not verified is nothing to remember.
        if service.is_open() && beat.is_multiple_of(REMEMBER_BEATS) {
            remember(&service, &memory).await;
        }
        if beat.is_multiple_of(SWEEP_BEATS) {
            sweep(&service).await;
        }
        if beat.is_multiple_of(MARK_BEATS) {
            mark(&service, &mut older).await;
        }
        if beat.is_multiple_of(WARN_BEATS) {
            warn(&service);
        }
    }
    for listener in listeners {
        ended(listener).await;
    }
    flush(&service, Counted::All).await;
    if service.is_open() {
        remember(&service, &memory).await;
    }
}

/// Tells of certificates that end soon: once they have, nothing is released.
fn warn(service: &Service<Embedded>) {
    for ending in service.identity.ending(service.clock.now()) {
        let (role, not_after) = (ending.role.text(), ending.not_after);
        tracing::warn!(role, %not_after, "a certificate of the service ends; renew it with `identity certify`");
    }
}

/// Notes how new the endorsements are, so that older ones are recognised later. What was `told` is not told again.
async fn mark(service: &Arc<Service<Embedded>>, told: &mut Vec<String>) {
    match crate::release::standing::mark(service).await {
        Ok(older) => {
            for item in older.iter().filter(|item| !told.contains(item)) {
                tracing::error!(item, "an endorsement is older than what was in use before; it is not used");
            }
            *told = older;
        }
        Err(error) => tracing::warn!(%error, "how new the endorsements are was not noted"),
    }
}

async fn reopen(service: &Arc<Service<Embedded>>, memory: &remembered::Memory) {
    let verified = match memory.read() {
        Ok(seen) => assemble::open(service, seen).await,
        Err(failure) => Err(failure),
    };
    match verified {
        Ok(_) => tracing::info!("the log was verified again; releases go on"),
        Err(failure) => tracing::error!(%failure, "releases stay stopped"),
    }
}

async fn remember(service: &Arc<Service<Embedded>>, memory: &remembered::Memory) {
    match crate::release::standing::head(service).await {
        Ok((size, root)) => match memory.write(&Remembered { size, root }) {
            Ok(()) => {}
            Err(Failure::Usage(what)) => {
                service.close();
                tracing::error!(what, "the log is not the one of before; releases are stopped");
            }
            Err(failure @ Failure::Unavailable(_)) => {
                tracing::warn!(%failure, "the newest checkpoint was not noted");
            }
        },
        Err(error) => tracing::warn!(%error, "the newest checkpoint was not read"),
    }
}

async fn flush(service: &Arc<Service<Embedded>>, which: Counted) {
    if let Err(error) = crate::release::strangers::flush(service, which).await {
        tracing::warn!(%error, "counted strangers were not recorded");
    }
}

async fn sweep(service: &Arc<Service<Embedded>>) {
    flush(service, Counted::Over).await;
    if let Err(error) = crate::release::lapse::record_lapsed(service).await {
        tracing::warn!(%error, "lapsed leases were not recorded");
    }
    let clock = service.clock.clone();
    let swept = service.store.transact::<_, StoreError, _>(move |txn| {
        let now = txn.ports().now(clock.now())?;
        txn.ports().sweep(now, now.plus(-QUOTAS_KEPT_S))?;
        Ok(txn.stage(()))
    });
    if let Err(error) = swept.await {
        tracing::warn!(%error, "what is over was not removed");
    }
}
