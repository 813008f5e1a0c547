//! The agent and the init data of its guest: sent as they are, and where they configure it, by nothing else.

use claviger::protocol::init_data::{Algorithm, InitData};
use claviger::sim::init_data;

use super::*;

const IMAGE: &str = "sha256:ab0123456789abcdefab0123456789abcdefab0123456789abcdefab01234567";

/// A service that grants, and what it was sent.
fn listening() -> (Arc<Service>, Server, Arc<Mutex<Vec<Request>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.clone());
        Response::json(200, &two_keys(service, request))
    });
    (service, server, seen)
}

fn sent(seen: &Mutex<Vec<Request>>) -> Bundle {
    Bundle::of(seen.lock().unwrap().remove(0).attest).unwrap()
}

#[test]
fn init_data_that_the_configuration_names_are_sent_byte_for_byte_under_the_proof() {
    let (service, server, seen) = listening();
    let mut guest = Guest::new(&service, &server);
    let document = b"# as it is\nversion = '0.1.0'\r\nalgorithm = 'sha256'\n[data]\n".to_vec();
    guest.config.init_data = Some(document.clone());
    assert_eq!(guest.run().exit(), Exit::Delivered);
    let bundle = sent(&seen);
    assert_eq!(bundle.evidence().cpu.init_data.as_ref().unwrap().0, document);
    bundle.check_proof().unwrap();
}

#[test]
fn without_init_data_none_are_sent() {
    let (service, server, seen) = listening();
    assert_eq!(Guest::new(&service, &server).run().exit(), Exit::Delivered);
    assert_eq!(sent(&seen).evidence().cpu.init_data, None);
}

#[test]
fn an_agent_that_init_data_configure_asks_for_what_they_name() {
    let (service, server, seen) = listening();
    let mut guest = Guest::new(&service, &server);
    let pins = service.pins();
    let configuration = format!(
        "service = \"http://{}\"\ntenant = \"acme\"\nkeys = [\"models/llama\", \"data\"]\nout_dir = {:?}\n\
         run_dir = {:?}\nretries = 0\ndanger_plaintext = true\ndanger_keys_on_disk = true\n[pins]\n\
         mode = \"{}\"\nstore = \"{}\"\nroots = [\"{}\", \"{}\"]\n",
        server.address,
        guest.config.out_dir,
        guest.config.run_dir,
        pins.mode.text(),
        pins.store,
        pins.roots[0],
        pins.roots[1]
    );
    let document = init_data::document(Algorithm::Sha384, IMAGE, &configuration);
    let file = guest.scratch.0.join("init-data.toml");
    std::fs::write(&file, &document).unwrap();
    guest.config = Config::read(Origin::InitData(&file), &Overrides::default()).unwrap();
    assert_eq!(guest.run().exit(), Exit::Delivered);
    let bundle = sent(&seen);
    assert_eq!(bundle.evidence().cpu.init_data.as_ref().unwrap().0, document);
    let parsed = InitData::parse(&document).unwrap();
    let names = parsed.agent().unwrap();
    let head = bundle.head();
    assert_eq!((&head.tenant, &head.keys, head.kem), (&names.tenant, &names.keys, names.kem()));
    assert_eq!(head.service_root, names.pins.as_ref().unwrap().id());
}
