//! Tests of the configuration: strict defaults, bounds on both sides, and what init data may not leave open.

use super::*;

fn text(more: &str) -> String {
    let (store, root) = ("01".repeat(16), ["02".repeat(32), "03".repeat(32)]);
    format!(
        "service = \"http://127.0.0.1:1\"\ntenant = \"acme\"\nkeys = [\"model\"]\nout_dir = \"/run/a\"\n\
         run_dir = \"/run/b\"\ndanger_plaintext = true\n{more}\n\
         [pins]\nmode = \"real\"\nstore = \"{store}\"\nroots = [\"{}\", \"{}\"]\n",
        root[0], root[1]
    )
}

fn load(text: &str) -> Result<Config, Error> {
    at("agent.toml", text, &Overrides::default())
}

fn at(path: &str, text: &str, overrides: &Overrides) -> Result<Config, Error> {
    Config::of(Path::new(path), document(Path::new(path), text)?, overrides)
}

fn refusal(text: &str) -> String {
    load(text).unwrap_err().to_string()
}

#[test]
fn defaults_are_strict() {
    let config = load(&text("")).unwrap();
    assert_eq!((config.kem, config.retries, config.timeout_s), (Kem::XWing, RETRIES, TIMEOUT_S));
    assert_eq!(config.devices, Settings::default());
    assert_eq!((config.places, config.conduct), (Places::default(), Conduct::default()));
    assert!(!config.danger_keys_on_disk && !config.danger_simulated_vendors);
}

#[test]
fn paths_of_the_file_are_relative_to_it_and_those_of_the_call_are_not() {
    let text = text("").replace("/run/a", "a");
    let read = |overrides: &Overrides| at("/etc/guest/agent.toml", &text, overrides);
    let config = read(&Overrides::default()).unwrap();
    assert_eq!(config.out_dir, Path::new("/etc/guest/a"));
    assert_eq!(config.run_dir, Path::new("/run/b"));
    let called = Overrides { out_dir: Some("here".into()), ..Overrides::default() };
    assert_eq!(read(&called).unwrap().out_dir, Path::new("here"));
}

#[test]
fn unknown_fields_are_refused_with_their_line() {
    let refused = refusal(&text("kees = []"));
    assert!(refused.contains("kees") && refused.contains("line 7"), "{refused}");
    assert!(!refused.contains('\n'));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let keys = (0..17).map(|n| format!("\"k{n}\"")).collect::<Vec<_>>().join(",");
    for (from, to, place) in [
        ("keys = [\"model\"]", "keys = [\"a/b\", \"a_b\"]", "keys"),
        ("keys = [\"model\"]", &format!("keys = [{keys}]"), "keys"),
        ("keys = [\"model\"]", "keys = [\"status.json\"]", "keys"),
        ("run_dir = \"/run/b\"", "run_dir = \"/run/a\"", "run_dir"),
        ("danger_plaintext = true", "retries = 101\ndanger_plaintext = true", "retries"),
        ("danger_plaintext = true", "timeout_s = 0\ndanger_plaintext = true", "timeout_s"),
        ("danger_plaintext = true", "timeout_s = 301\ndanger_plaintext = true", "timeout_s"),
        ("danger_plaintext = true", "device_timeout_s = 0\ndanger_plaintext = true", "device_timeout_s"),
        ("danger_plaintext = true", "device_timeout_s = 301\ndanger_plaintext = true", "device_timeout_s"),
        (
            "danger_plaintext = true",
            "snp_privilege_level = 4\ndanger_plaintext = true",
            "snp_privilege_level",
        ),
        ("danger_plaintext = true", "deliver = []\ndanger_plaintext = true", "deliver"),
        ("danger_plaintext = true", "deliver = [\"files\", \"files\"]\ndanger_plaintext = true", "deliver"),
        ("danger_plaintext = true", "owner = \"app\"\ndanger_plaintext = true", "owner"),
        ("danger_plaintext = true", "socket = \"s\"\ndanger_plaintext = true", "socket"),
        (
            "danger_plaintext = true",
            "deliver = [\"socket\"]\nsocket_peers = [65534]\ndanger_plaintext = true",
            "socket_peers",
        ),
        ("danger_plaintext = true", "stop_grace_s = 0\ndanger_plaintext = true", "stop_grace_s"),
        ("danger_plaintext = true", "stop_grace_s = 301\ndanger_plaintext = true", "stop_grace_s"),
        ("danger_plaintext = true", "wait_lease_s = 3601\ndanger_plaintext = true", "wait_lease_s"),
        (&"03".repeat(32), &"02".repeat(32), "pins"),
    ] {
        let altered = text("").replacen(from, to, 1);
        assert_ne!(altered, text(""), "{from}");
        assert!(refusal(&altered).starts_with(place), "{to}: {}", refusal(&altered));
    }
    let sixteen = (0..16).map(|n| format!("\"k{n}\"")).collect::<Vec<_>>().join(",");
    assert!(load(&text("").replacen("\"model\"", &sixteen, 1)).is_ok());
    let peers = |count: u32| {
        let peers = (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        format!("deliver = [\"socket\"]\nsocket_peers = [{peers}]")
    };
    let most = u32::try_from(limits::AGENT_SOCKET_PEERS_MAX).unwrap();
    assert!(refusal(&text(&peers(most + 1))).starts_with("socket_peers"));
    for good in [
        "retries = 100",
        "timeout_s = 300",
        "timeout_s = 1",
        "device_timeout_s = 300",
        "device_timeout_s = 1",
        "snp_privilege_level = 0",
        "snp_privilege_level = 3",
        "stop_grace_s = 1",
        "stop_grace_s = 300",
        "wait_lease_s = 3600",
        "deliver = [\"keyring\", \"files\"]\nowner = \"1000:1000\"\nkeyring = \"user\"",
        "on_denied = \"warn\"",
        &peers(most),
    ] {
        assert!(load(&text(good)).is_ok(), "{good}");
    }
}

#[test]
fn simulated_pins_and_plain_http_need_their_flags() {
    let simulated = text("").replace("\"real\"", "\"simulated\"");
    assert_eq!(load(&simulated).unwrap_err(), Error::SimulatedPins);
    let allowed = text("danger_simulated_vendors = true").replace("\"real\"", "\"simulated\"");
    assert!(load(&allowed).is_ok());
    let plain = text("").replace("danger_plaintext = true", "");
    assert!(matches!(load(&plain), Err(Error::Url { .. })));
    let tls = text("").replace("http://", "https://");
    assert!(refusal(&tls).contains("ca_file"));
}

/// A file with init data that goes with the test.
struct Written(PathBuf);

impl Written {
    fn new(text: &str) -> Self {
        let name: [u8; 8] = crate::wire::crypto::random().unwrap();
        let path = std::env::temp_dir().join(format!("claviger-init-data-{}.toml", hex::encode(name)));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn load(&self, overrides: &Overrides) -> Result<Config, Error> {
        Config::read(Origin::InitData(&self.0), overrides)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn init_data(configuration: &str) -> String {
    format!(
        "version = \"0.1.0\"\nalgorithm = \"sha384\"\n[data]\n\"claviger-agent.toml\" = \'\'\'\n\
         {configuration}\'\'\'\n\"policy.rego\" = \"\"\n"
    )
}

#[test]
fn init_data_configure_the_agent_and_are_sent_as_they_are() {
    let written = init_data(&text("audience = \"https://vault.example\""));
    let config = Written::new(&written).load(&Overrides::default()).unwrap();
    assert_eq!(config.init_data.as_deref(), Some(written.as_bytes()));
    // What the service compares a request with is what the agent asks by.
    let parsed = InitData::parse(written.as_bytes()).unwrap();
    let names = parsed.agent().unwrap();
    assert_eq!((&names.tenant, &names.keys), (&config.tenant, &config.keys));
    assert_eq!((&names.audience, names.kem()), (&config.audience, config.kem));
    assert_eq!(names.pins.as_ref().unwrap().id(), config.pins.id());
    let folders = Overrides { out_dir: Some("/elsewhere".into()), retries: Some(1), ..Overrides::default() };
    let config = Written::new(&written).load(&folders).unwrap();
    assert_eq!((config.out_dir.as_path(), config.retries), (Path::new("/elsewhere"), 1));
}

#[test]
fn nothing_beside_the_init_data_redirects_the_agent() {
    let written = Written::new(&init_data(&text("")));
    for overrides in [
        Overrides { service: Some("http://127.0.0.1:2".to_string()), ..Overrides::default() },
        Overrides { tenant: Some("other".parse().unwrap()), ..Overrides::default() },
        Overrides { keys: Some(Vec::new()), ..Overrides::default() },
        Overrides { audience: Some("x".parse().unwrap()), ..Overrides::default() },
    ] {
        assert!(matches!(written.load(&overrides), Err(Error::Config { .. })), "{overrides:?}");
    }
    for (from, to) in [
        ("[pins]", "pins_file = \"/etc/pins.json\"\n[pins]"),
        ("[pins]", "init_data = \"/run/other\"\n[pins]"),
        ("[pins]", "save_bundle = \"bundle.json\"\n[pins]"),
        ("[pins]", "ca_file = \"ca.pem\"\n[pins]"),
        ("[pins]", "deliver = [\"socket\"]\nsocket = \"s\"\n[pins]"),
        ("[pins]", "termination_log = \"last\"\n[pins]"),
        ("/run/a", "a"),
        ("/run/b", "b"),
        ("tenant =", "tenants ="),
    ] {
        let altered = text("").replacen(from, to, 1);
        assert_ne!(altered, text(""), "{from}");
        let refused = Written::new(&init_data(&altered)).load(&Overrides::default());
        assert!(matches!(refused, Err(Error::Config { .. })), "{to}: {refused:?}");
    }
    let without = "version = \"0.1.0\"\nalgorithm = \"sha384\"\n[data]\n";
    let refused = Written::new(without).load(&Overrides::default()).unwrap_err().to_string();
    assert!(refused.contains(AGENT_CONFIGURATION), "{refused}");
    assert!(Written::new("x").load(&Overrides::default()).is_err());
}

#[test]
fn init_data_of_a_configuration_are_sent_whatever_they_say_as_long_as_they_are_some() {
    let document = Written::new("version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n");
    let named = |file: &Written| load(&text(&format!("init_data = {:?}", file.0)));
    assert_eq!(named(&document).unwrap().init_data, Some(std::fs::read(&document.0).unwrap()));
    assert!(load(&text("")).unwrap().init_data.is_none());
    assert!(matches!(named(&Written::new("x")), Err(Error::Config { .. })));
    let long = format!("# {}", "x".repeat(limits::INIT_DATA_LEN_MAX));
    assert!(named(&Written::new(&long)).unwrap_err().to_string().contains("at most"));
}

#[test]
fn tls_anchors_are_given_once() {
    let tls = text("").replace("http://", "https://");
    let with = |more: &str| refusal(&tls.replacen("[pins]", &format!("{more}\n[pins]"), 1));
    assert!(with("ca = \"x\"\nca_file = \"y\"").contains("either `ca` or `ca_file`"));
    assert!(with("ca = \"x\"").contains("PEM"));
}

#[test]
fn pins_are_given_once() {
    let twice = text("pins_file = \"x\"");
    assert!(refusal(&twice).contains("`pins_file`"));
    let at = text("").find("[pins]").unwrap();
    assert!(refusal(&text("")[..at]).contains("`pins_file`"));
}
