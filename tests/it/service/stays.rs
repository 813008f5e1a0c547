//! The real agent against the real service over HTTP: renewals, a restart of the service between them, a policy that
//! changes, and a guest that waits for the lease of another.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use claviger::agent::config::{Conduct, OnDenied};
use claviger::agent::deliver::places::Places;
use claviger::agent::error::Exit;
use claviger::agent::life::{Last, Task, live};
use claviger::agent::system::Settings;
use claviger::agent::url::ServiceUrl;
use claviger::agent::workload::Leash;
use claviger::agent::{Clock as AgentClock, Config, Outcome};
use claviger::http::listen::{self, Bounds};

use super::*;

const BOUNDS: Bounds = Bounds { connections_max: 8, of_one_address_max: 8, head_s_max: 60, body_s_max: 60 };
const LEASE_S: i64 = 60;

/// A listener on loopback that can go and come back under its address.
struct Listening {
    address: SocketAddr,
    stop: tokio::sync::watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Listening {
    async fn new(service: &Arc<Service<TestPorts>>, address: &str) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = claviger::http::guest::routes(service.clone());
        let serving = tokio::spawn(listen::serve(listener, listen::Wire::Plain, BOUNDS, routes, stopped));
        Self { address, stop, serving }
    }

    async fn end(self) {
        self.stop.send_replace(true);
        self.serving.await.unwrap();
    }
}

type Hook = Box<dyn FnMut(i64)>;
type Clocks = Rc<RefCell<Vec<Arc<AtomicI64>>>>;

/// One time for guest and service; it passes while the agent sleeps.
struct Shared {
    /// The clock of each service that is open.
    clocks: Clocks,
    begun: i64,
    ends_after: i64,
    /// Is told how many seconds passed since the start, before each sleep.
    hook: RefCell<Hook>,
    part: Cell<Duration>,
}

impl Shared {
    fn new(stage: &Stage, ends_after: i64, hook: impl FnMut(i64) + 'static) -> Self {
        Self {
            clocks: Rc::new(RefCell::new(vec![stage.open.clock.0.clone()])),
            begun: stage.now().get(),
            ends_after,
            hook: RefCell::new(Box::new(hook)),
            part: Cell::default(),
        }
    }

    fn passed(&self) -> i64 {
        self.clocks.borrow()[0].load(Ordering::SeqCst) - self.begun
    }
}

impl AgentClock for Shared {
    fn now(&self) -> UnixSeconds {
        UnixSeconds::new(self.begun + self.passed()).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.passed()).unwrap()) + self.part.get()
    }

    fn sleep(&self, duration: Duration) -> Duration {
        (self.hook.borrow_mut())(self.passed());
        let whole = self.part.get() + duration;
        self.part.set(Duration::from_nanos(u64::from(whole.subsec_nanos())));
        let seconds = i64::try_from(whole.as_secs()).unwrap();
        for clock in self.clocks.borrow().iter() {
            clock.fetch_add(seconds, Ordering::SeqCst);
        }
        Duration::ZERO
    }

    fn told_to_end(&self) -> bool {
        self.passed() >= self.ends_after
    }
}

fn config(stage: &Stage, name: &str, address: SocketAddr) -> Config {
    let folder = stage.scratch.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    Config {
        service: ServiceUrl::parse(&format!("http://{address}"), true).unwrap(),
        anchors: Vec::new(),
        pins: stage.identity().public().pins().clone(),
        tenant: TENANT.parse().unwrap(),
        keys: vec![KEY.parse().unwrap()],
        audience: Some(AUDIENCE.parse().unwrap()),
        kem: Kem::XWing,
        out_dir: folder.join("out"),
        run_dir: folder.join("run"),
        retries: 2,
        timeout_s: 20,
        save_bundle: None,
        init_data: None,
        devices: Settings::default(),
        places: Places::default(),
        conduct: Conduct::default(),
        danger_keys_on_disk: true,
        danger_simulated_vendors: true,
    }
}

fn short_leases() -> String {
    POLICY.replace("[gpu]", &format!("[lease]\nseconds = {LEASE_S}\n[gpu]"))
}

#[test]
fn two_renewals_with_a_restart_of_the_service_between_them() {
    let stage = Rc::new(Stage::with_policy("stays-restart", &short_leases()));
    let mut guest = stage.guest("g");
    let listening = stage.runtime.block_on(Listening::new(stage.service(), "127.0.0.1:0"));
    let address = listening.address;
    let config = config(&stage, "agent", address);
    let clock = Shared::new(&stage, 80, |_| {});
    let (key, clocks, own) = (config.out_dir.join("demo_model"), clock.clocks.clone(), stage.clone());
    let restarts = Rc::new(Cell::new(0));
    let (counted, mut listening, mut opened) = (restarts.clone(), Some(listening), Vec::new());
    *clock.hook.borrow_mut() = Box::new(move |passed| {
        assert_eq!(std::fs::read(&key).unwrap(), SECRET, "after {passed} s");
        // After the first renewal, due at 27 to 33 seconds, the service goes and comes back as another process of it.
        if passed >= 27 && counted.get() == 0 && own.count("renewed") == 1 {
            own.runtime.block_on(listening.take().unwrap().end());
            let again = own.runtime.block_on(open(own.scratch.path(), own.now().get()));
            again.service.open();
            clocks.borrow_mut().push(again.clock.0.clone());
            listening = Some(own.runtime.block_on(Listening::new(&again.service, &address.to_string())));
            opened.push(again);
            counted.set(1);
        }
    });
    let last = live(&config, &Task::Stay, &mut guest.devices, &clock, &Leash::default());
    assert!(matches!(&last, Last::Told { end: Outcome::Delivered(_) }), "{last}");
    assert_eq!((last.status(), restarts.get()), (0, 1));
    assert!(!config.out_dir.join("demo_model").exists());
    let renewals = stage.count("renewed");
    assert!(renewals >= 2, "{renewals}: with results, so each has its entry");
    assert_eq!((stage.count("released"), stage.count("ended"), stage.count("denied")), (1, 1, 0));
}

#[test]
fn a_policy_that_no_longer_allows_the_guest_ends_it_at_its_next_renewal() {
    let stage = Rc::new(Stage::with_policy("stays-denied", &short_leases()));
    let stricter = short_leases().replace("550.90.07", "580.00.00");
    assert_ne!(stricter, short_leases());
    let listening = stage.runtime.block_on(Listening::new(stage.service(), "127.0.0.1:0"));
    // Whoever goes on without a lease has none to give back in the end, and is told so.
    for (name, on_denied, status, denials) in [("stop", OnDenied::Stop, 1, 1), ("warn", OnDenied::Warn, 0, 2)]
    {
        stage.activate(&short_leases());
        let mut guest = stage.guest(name);
        let mut config = config(&stage, name, listening.address);
        config.conduct.on_denied = on_denied;
        let (own, document, denied) = (stage.clone(), stricter.clone(), stage.count("denied"));
        let mut changed = false;
        let clock = Shared::new(&stage, 300, move |_| {
            if !std::mem::replace(&mut changed, true) {
                own.activate(&document);
            }
        });
        let last = live(&config, &Task::Stay, &mut guest.devices, &clock, &Leash::default());
        assert_eq!(last.status(), status, "{last}");
        assert_eq!(stage.count("denied"), denied + denials, "a renewal was asked for once");
        assert!(!config.out_dir.join("demo_model").exists());
    }
    stage.runtime.block_on(listening.end());
    stage.holds();
}

#[test]
fn a_guest_waits_for_the_lease_of_a_crashed_one_and_then_has_the_gpu() {
    let stage = Stage::new("stays-wait");
    let mut crashed = stage.guest("crashed");
    crashed.granted(&stage);
    let mut next = stage.thief("next", &crashed);
    let listening = stage.runtime.block_on(Listening::new(stage.service(), "127.0.0.1:0"));
    let mut config = config(&stage, "agent", listening.address);
    let clock = Shared::new(&stage, i64::MAX, |_| {});
    let outcome = claviger::agent::run::run(&config, &mut next.devices, &clock);
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Denied, Some(Code::GpuHeldByOwnTenant)), "{outcome}");
    config.conduct.wait_lease_s = 900;
    next.devices.restart();
    let outcome = claviger::agent::run::run(&config, &mut next.devices, &clock);
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    assert!((601..=603).contains(&clock.passed()), "{}", clock.passed());
    assert_eq!(stage.count("denied"), 2, "asked once, told to wait once");
    stage.runtime.block_on(listening.end());
    stage.holds();
}
