//! `claviger measure snp`: digests that others published, a second computation of every shape, and what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use claviger::policy::ReferenceSet;
use claviger::policy::reference_set::Values;
use claviger::wire::{Digest, crypto, limits};
use claviger::workbench::Firmware;
use sev::measurement::ovmf::OVMF;

use super::scratch::Scratch;
use oracle::{Image, Kernel, Shape};

pub mod oracle;
mod tdx;

fn claviger(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    command.current_dir(scratch.path()).args(["measure", "snp"]).args(arguments).output().unwrap()
}

fn set(output: &Output) -> ReferenceSet {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    ReferenceSet::parse(&output.stdout).unwrap()
}

fn measured(scratch: &Scratch, arguments: &[&str]) -> Digest<48> {
    let set = set(&claviger(scratch, &[arguments, &["--format", "json"]].concat()));
    let Values::Snp(snp) = set.values else { panic!("{set:?}") };
    assert_eq!(snp.measurements.len(), 1);
    snp.measurements[0]
}

/// The code in the message of a refusal, which also says what to do.
fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty() && said.contains("what to do: "), "{said}");
    let (_, code) = said.lines().next().unwrap().rsplit_once('(').unwrap();
    code.trim_end_matches(')').to_string()
}

/// The last page of a real OVMF image.
fn last_page(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/workbench").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, digits) = text.split_once("\n\n").unwrap();
    hex::decode(digits.split_whitespace().collect::<String>()).unwrap()
}

const SHAPE: [&str; 4] = ["--vcpus", "1", "--vcpu-type", "EPYC-v4"];

#[test]
fn real_firmware_measures_to_the_published_digests() {
    let scratch = Scratch::new("measure-published");
    scratch.write("amdsev", &last_page("ovmf-amdsev-last-page.hex"));
    scratch.write("x64", &last_page("ovmf-x64-last-page.hex"));
    scratch.write("empty", b"");
    let kernel = ["--kernel", "empty", "--initrd", "empty"];
    let append = [&kernel[..], &["--append", "console=ttyS0 loglevel=7"]].concat();
    let ec2 = [&kernel[..], &["--vmm", "ec2"]].concat();
    // Firmware, vCPUs, features, other options, digest: those of the tests of sev 8.0.0, which are those of
    // sev-snp-measure.
    let published: [(&str, &str, &str, &[&str], &str); 12] = [
        (
            "amdsev",
            "1",
            "0x1",
            &append,
            "6d287813eb5222d770f75005c664e34c204f385ce832cc2ce7d0d6f354454362f390ef83a92046c042e706363b4b08fa",
        ),
        (
            "amdsev",
            "1",
            "0x21",
            &append,
            "803f691094946e42068aaa3a8f9e26a5c89f36f7b73ecfb28c653360fe4b3aba7e534442e7e1e17895dfe778d0228977",
        ),
        (
            "amdsev",
            "1",
            "0x1",
            &kernel,
            "ddc5224521617a536ee7ce9dd6224d1b58a8d4fda1c741f3ac99fc4bfa04ba6e9fc98646d4a07a9079397fa3852819b5",
        ),
        (
            "amdsev",
            "1",
            "0x21",
            &kernel,
            "329c8ce0972ae52343b64d34a434a86f245dfd74f5ed7aae15d22efc78fb9683632b9b50e4e1d7fa41179ef98a7ef198",
        ),
        (
            "amdsev",
            "1",
            "0x1",
            &ec2,
            "7d3756157c805bf6adf617064c8552e8c1688fa1c8756f11cbf56ba5d25c9270fb69c0505c1cbe1c5c66c0e34c6ed3be",
        ),
        (
            "amdsev",
            "1",
            "0x21",
            &ec2,
            "6ae80856486b1396af8c82a40351d6ed76a20c785e9c7fa4ffa27c22d5d6313b4b3b458cd3c9968e6f89fb5d8450d7a6",
        ),
        (
            "amdsev",
            "1",
            "0x1",
            &[],
            "19358ba9a7615534a9a1e2f0dfc29384dcd4dcb7062ff9c6013b26869a5fc6ecabe033c48dd6f6db5d6d76e7c5df632d",
        ),
        (
            "amdsev",
            "1",
            "0x21",
            &[],
            "e1e1ca029dd7973ab9513295be68198472dcd4fc834bd9af9b63f6e8a1674dbf281a9278a4a2ebe0eed9f22adbcd0e2b",
        ),
        (
            "amdsev",
            "4",
            "0x1",
            &kernel,
            "5061fffb019493a903613d56d54b94912a1a2f9e4502385f5c194616753720a92441310ba6c4933de877c36e23046ad5",
        ),
        (
            "amdsev",
            "4",
            "0x21",
            &kernel,
            "4953b1fb416fa874980e8442b3706d345926d5f38879134e00813c5d7abcbe78eafe7b422907be0b4698e2414a631942",
        ),
        (
            "x64",
            "1",
            "0x1",
            &[],
            "da0296de8193586a5512078dcd719eccecbd87e2b825ad4148c44f665dc87df21e5b49e21523a9ad993afdb6a30b4005",
        ),
        (
            "x64",
            "1",
            "0x21",
            &[],
            "28797ae0afaba4005a81e629acebfb59e6687949d6be44007cd5506823b0dd66f146aaae26ff291eed7b493d8a64c385",
        ),
    ];
    for (firmware, vcpus, features, options, digest) in published {
        let shape =
            ["--ovmf", firmware, "--vcpus", vcpus, "--vcpu-type", "EPYC-v4", "--guest-features", features];
        assert_eq!(
            measured(&scratch, &[&shape[..], options].concat()).to_string(),
            digest,
            "{shape:?} {options:?}"
        );
    }
    println!("published launch digests: {} of {}", published.len(), published.len());
    let output = claviger(&scratch, &[&["--ovmf", "x64", "--kernel", "empty"][..], &SHAPE].concat());
    assert_eq!(refused(&output), "measure_kernel_hashes_missing");
}

#[test]
fn every_shape_measures_to_what_the_specifications_give() {
    let scratch = Scratch::new("measure-shapes");
    let (kernel, initrd, command_line) =
        (b"a kernel".repeat(1000), b"an initrd".repeat(999), "root=/dev/dm-0 quiet");
    for (name, bytes) in
        [("kernel", &kernel[..]), ("initrd", &initrd), ("cmdline", b"root=/dev/dm-0 quiet\r\n")]
    {
        scratch.write(name, bytes);
    }
    let whole = Kernel { kernel: &kernel, initrd: &initrd, command_line };
    let alone = Kernel { kernel: &kernel, initrd: &[], command_line: "" };
    let kernels: [(&[&str], Option<&Kernel<'_>>); 3] = [
        (&[], None),
        (&["--kernel", "kernel"], Some(&alone)),
        (&["--kernel", "kernel", "--initrd", "initrd", "--append-file", "cmdline"], Some(&whole)),
    ];
    let mut reversed = Image::full();
    reversed.sections.reverse();
    let mut count = 0;
    for (at, image) in [Image::full(), reversed, Image { pages: 1, ..Image::full() }].iter().enumerate() {
        scratch.write("ovmf", &image.bytes());
        for (vcpus, name, signature, vmm, features) in [
            (1, "EPYC", 0x0080_0f12, "qemu", "1"),
            (2, "epyc-rome", 0x0083_0f10, "qemu", "0x21"),
            (3, "EPYC-Milan-v2", 0x00a0_0f11, "qemu", "0x1"),
            (64, "EPYC-Genoa", 0x00a1_0f10, "ec2", "0x3f1"),
            (5, "EPYC-Turin-v2", 0x00b0_0f00, "qemu", "0xf0000000000000ff"),
            (2, "EPYC-Turin", 0x00b0_0f00, "ec2", "0x1"),
        ] {
            let digits = features.trim_start_matches("0x");
            let features = u64::from_str_radix(digits, 16).unwrap();
            let shape = Shape { vcpus, signature, ec2: vmm == "ec2", features };
            let vcpus = vcpus.to_string();
            let options = ["--ovmf", "ovmf", "--vcpus", &vcpus, "--vcpu-type", name, "--vmm", vmm];
            for (files, kernel) in kernels {
                let arguments = [&options[..], &["--guest-features", digits], files].concat();
                let expected = oracle::digest(image, shape, kernel);
                assert_eq!(measured(&scratch, &arguments), expected, "image {at}, {arguments:?}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 54);
}

#[test]
fn the_set_tells_what_was_measured_and_what_was_not() {
    let scratch = Scratch::new("measure-set");
    let image = Image::full().bytes();
    scratch.write("ovmf", &image);
    scratch.write("kernel", b"kernel");
    let at = ["--at", "2026-11-30T12:00:00Z"];
    let with = ["--ovmf", "ovmf", "--kernel", "kernel", "--append", "quiet"];
    let toml = claviger(&scratch, &[&with[..], &SHAPE, &at, &["--format", "toml"]].concat());
    let json = claviger(&scratch, &[&with[..], &SHAPE, &at, &["--format", "json"]].concat());
    let set = set(&toml);
    assert_eq!(set, self::set(&json));
    let created = format!("\"created\":\"{}\",", set.created);
    let content = String::from_utf8(json.stdout.clone()).unwrap().replace(&created, "");
    assert_ne!(content.as_bytes(), json.stdout);
    assert_eq!(set.digest().unwrap(), crypto::sha256(&[content.as_bytes()]));
    let inputs: Vec<_> =
        set.inputs.iter().map(|input| (input.name.as_str(), input.len, input.sha256)).collect();
    let of = |bytes: &[u8]| crypto::sha256(&[bytes]);
    let len = u64::try_from(image.len()).unwrap();
    assert_eq!(
        inputs,
        [("ovmf", len, of(&image)), ("kernel", 6, of(b"kernel")), ("command_line", 5, of(b"quiet"))]
    );
    let settings: Vec<_> = set.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [("guest_features", "0x1"), ("vcpu_type", "EPYC-v4"), ("vcpus", "1"), ("vmm", "qemu")];
    assert_eq!(settings, expected);
    let text = claviger(&scratch, &[&["--ovmf", "ovmf"], &SHAPE[..]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("the firmware starts what the disk holds"), "{text}");
    assert!(text.contains("in the policy, below [cpu.snp.code]:\n    measurements = [\""), "{text}");
}

#[test]
fn the_measured_value_is_taken_by_a_policy_as_it_is_shown() {
    let scratch = Scratch::new("measure-policy");
    scratch.write("ovmf", &Image::full().bytes());
    let output = claviger(&scratch, &[&["--ovmf", "ovmf"], &SHAPE[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("measurements = ")).unwrap();
    let policy = include_str!("../../policies/genoa-h100.toml");
    let (before, after) = policy.split_once("measurements = [").unwrap();
    let after = after.split_once(']').unwrap().1;
    let policy =
        claviger::policy::Policy::parse(format!("{before}{}{after}", line.trim()).as_bytes()).unwrap();
    let listed = serde_json::to_value(&policy.cpu.snp.as_ref().unwrap().code).unwrap();
    assert_eq!(listed["measurements"][0], text.lines().next().unwrap().split_whitespace().last().unwrap());
}

#[test]
fn what_is_not_right_is_refused_with_its_own_code() {
    let scratch = Scratch::new("measure-refused");
    let write = |name: &str, bytes: &[u8]| scratch.write(name, bytes);
    write("ovmf", &Image::full().bytes());
    write("no-hashes", &Image::without_hashes().bytes());
    write("no-area", &Image { hashes: None, ..Image::full() }.bytes());
    write("area-elsewhere", &Image { hashes: Some((0x82_0000, 0x400)), ..Image::full() }.bytes());
    write("area-too-late", &Image { hashes: Some((0x81_0f51, 0x400)), ..Image::full() }.bytes());
    write("kernel", b"kernel");
    write("zero", b"a\0b");
    write("latin", b"a\xff");
    write("long-cmdline", &[b'x'; limits::COMMAND_LINE_LEN_MAX + 3]);
    std::fs::create_dir(scratch.path().join("folder")).unwrap();
    let kernel = std::fs::File::create(scratch.path().join("huge")).unwrap();
    kernel.set_len(limits::KERNEL_LEN_MAX + 1).unwrap();
    let ovmf = std::fs::File::create(scratch.path().join("huge-ovmf")).unwrap();
    ovmf.set_len(u64::try_from(limits::FIRMWARE_LEN_MAX).unwrap() + 1).unwrap();
    let with_kernel = |image: &'static str| vec!["--ovmf", image, "--kernel", "kernel"];
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["--ovmf", "missing"], "measure_file_unreadable"),
        (vec!["--ovmf", "folder"], "measure_file_unreadable"),
        (vec!["--ovmf", "/dev/null"], "measure_file_unreadable"),
        (vec!["--ovmf", "huge-ovmf"], "measure_file_too_long"),
        (vec!["--ovmf", "kernel"], "measure_firmware_length"),
        (vec!["--ovmf", "ovmf", "--kernel", "missing"], "measure_file_unreadable"),
        (vec!["--ovmf", "ovmf", "--kernel", "huge"], "measure_file_too_long"),
        (vec!["--ovmf", "ovmf", "--kernel", "kernel", "--initrd", "missing"], "measure_file_unreadable"),
        (with_kernel("no-hashes"), "measure_kernel_hashes_missing"),
        (with_kernel("no-area"), "measure_kernel_hashes_missing"),
        (with_kernel("area-elsewhere"), "measure_kernel_hashes_missing"),
        (with_kernel("area-too-late"), "measure_kernel_hashes_missing"),
        ([with_kernel("ovmf"), vec!["--append-file", "zero"]].concat(), "measure_kernel_command_line"),
        ([with_kernel("ovmf"), vec!["--append-file", "latin"]].concat(), "measure_kernel_command_line"),
        ([with_kernel("ovmf"), vec!["--append", " quiet"]].concat(), "measure_kernel_command_line"),
        ([with_kernel("ovmf"), vec!["--append-file", "long-cmdline"]].concat(), "measure_file_too_long"),
    ];
    for (arguments, code) in cases {
        let output = claviger(&scratch, &[&arguments[..], &SHAPE].concat());
        assert_eq!(refused(&output), code, "{arguments:?}");
    }
    for (vcpus, kind, features, code) in [
        ("0", "EPYC", "1", "measure_vcpu_count"),
        ("4097", "EPYC", "1", "measure_vcpu_count"),
        ("1", "EPYC-Geona", "1", "measure_vcpu_type_unknown"),
        ("1", "EPYC", "0x20", "measure_guest_features"),
        ("1", "EPYC", "0y1", "measure_guest_features"),
        ("1", "EPYC", "10000000000000000", "measure_guest_features"),
    ] {
        let shape = ["--ovmf", "ovmf", "--vcpus", vcpus, "--vcpu-type", kind, "--guest-features", features];
        let output = claviger(&scratch, &shape);
        assert_eq!(refused(&output), code, "{shape:?}");
    }
    // Without its kernel an initrd or a command line would be measured nowhere.
    for option in ["--initrd", "--append", "--append-file"] {
        let output = claviger(&scratch, &[&["--ovmf", "ovmf", option, "kernel"], &SHAPE[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--kernel"));
    }
}

/// What is refused of an image's tables.
#[test]
fn tables_that_do_not_hold_together_are_refused() {
    let full = Image::full;
    let not_ovmf = "measure_firmware_not_ovmf";
    let without_snp = "measure_firmware_without_snp";
    let section = |gpa: u32, len: u32, kind: u32| {
        let mut image = full();
        image.sections.push((gpa, len, kind));
        image
    };
    let cases = [
        (Image { signature: *b"ASEW", ..full() }, without_snp, "signature"),
        (Image { version: 2, ..full() }, without_snp, "version 1; 2 given"),
        (Image { count: Some(7), ..full() }, without_snp, "the length is 88"),
        (Image { count: Some(0), len: Some(16), ..full() }, without_snp, "1 to 64 sections; 0 given"),
        (Image { count: Some(u32::MAX), ..full() }, without_snp, "1 to 64 sections"),
        (Image { len: Some(u32::MAX), ..full() }, without_snp, "the length is 4294967295"),
        (Image { from_end: Some(u32::MAX), ..full() }, without_snp, "bytes before the image's end"),
        (Image { from_end: Some(8), ..full() }, without_snp, "ends before its last section"),
        (Image { from_end: Some(512), ..full() }, without_snp, "signature"),
        (Image { reset_eip: None, ..full() }, without_snp, "reset block"),
        (Image { reset_eip: Some(0), ..full() }, without_snp, "reset block"),
        (Image { before: 1, ..full() }, not_ovmf, "longer than its table"),
        (section(0x90_0000, 0x1000, 5), without_snp, "type 0x5 is not known"),
        (section(0x90_0000, 0x1000, 0x101), without_snp, "type 0x101 is not known"),
        (section(0x90_0000, 0x1001, 1), without_snp, "0x1001 bytes at 0x900000"),
        (section(0x90_0001, 0x1000, 1), without_snp, "0x1000 bytes at 0x900001"),
        (section(0x90_0000, 0, 1), without_snp, "0x0 bytes"),
        (section(0xffff_f000, 0x1000, 1), without_snp, "at 0xfffff000"),
        (section(0x80_1000, 0x1000, 1), without_snp, "two sections hold the page 0x801000"),
        (section(0x90_0000, 0x1000, oracle::CPUID), without_snp, "two sections hold the page 0x900000"),
    ];
    for (image, code, what) in cases {
        let error = Firmware::parse(&image.bytes()).unwrap_err();
        assert_eq!(error.code().text(), code, "{error}");
        assert!(error.to_string().contains(what), "{error}; expected {what}");
    }
    let mut two_pages = full();
    two_pages.sections[2].1 = 0x2000;
    two_pages.sections.remove(3);
    let error = Firmware::parse(&two_pages.bytes()).unwrap_err().to_string();
    assert!(error.contains("one page of type 0x2; 2 given"), "{error}");
    for bytes in
        [vec![0; 4096], full().bytes()[..8192].to_vec(), full().bytes().iter().rev().copied().collect()]
    {
        assert_eq!(Firmware::parse(&bytes).unwrap_err().code().text(), not_ovmf);
    }
}

#[test]
fn the_bounds_of_firmware_have_two_sides() {
    let of_pages = |pages: usize| Image { pages, ..Image::full() }.bytes();
    let most = limits::FIRMWARE_LEN_MAX / 4096;
    assert!(Firmware::parse(&of_pages(most)).is_ok());
    for len in [0, 1, 4095, 4097] {
        assert_eq!(Firmware::parse(&vec![0; len]).unwrap_err().code().text(), "measure_firmware_length");
    }
    assert_eq!(Firmware::parse(&of_pages(most + 1)).unwrap_err().code().text(), "measure_firmware_length");
    let of_sections = |count: u32| {
        let sections = (0..count).map(|at| (0x80_0000 + at * 0x1000, 0x1000, oracle::MEMORY)).collect();
        let image = Image { sections, ..Image::full() };
        Firmware::parse(&image.bytes()).map(|firmware| firmware.sections().len())
    };
    assert_eq!(of_sections(limits::FIRMWARE_SECTIONS_MAX), Ok(64));
    assert!(of_sections(limits::FIRMWARE_SECTIONS_MAX + 1).is_err());
    let of_section = |pages: u32| {
        let sections = vec![(0x100_0000, pages * 0x1000, oracle::MEMORY)];
        Firmware::parse(&Image { sections, ..Image::full() }.bytes())
            .map(|firmware| firmware.sections()[0].pages)
    };
    assert_eq!(of_section(limits::FIRMWARE_SECTION_PAGES_MAX), Ok(limits::FIRMWARE_SECTION_PAGES_MAX));
    assert!(of_section(limits::FIRMWARE_SECTION_PAGES_MAX + 1).is_err());
}

/// The crate reads slices by numbers of the file: whatever passes here must not stop it.
#[test]
fn altered_tables_are_refused_or_read_alike_by_the_crate() {
    let scratch = Scratch::new("measure-altered");
    let (mut accepted, mut refused) = (0, 0);
    for image in [last_page("ovmf-amdsev-last-page.hex"), Image::full().bytes()] {
        // Metadata and tables lie in what is altered; the rest is code and filling.
        let metadata = image.windows(4).position(|four| four == b"ASEV").unwrap();
        let places: Vec<usize> =
            (metadata..metadata + 112).chain(image.len() - 200..image.len() - 32).collect();
        for at in places {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut altered = image.clone();
                altered[at] ^= value;
                let Ok(firmware) = Firmware::parse(&altered) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let path: PathBuf = scratch.write("ovmf", &altered);
                let theirs = OVMF::new(path).unwrap_or_else(|error| panic!("byte {at}: {error}"));
                assert_eq!(theirs.sev_es_reset_eip().unwrap(), firmware.reset_eip(), "byte {at}");
                let items = theirs.metadata_items().iter();
                let theirs: Vec<_> = items.map(|item| (item.gpa, item.size)).collect();
                let ours: Vec<_> =
                    firmware.sections().iter().map(|section| (section.gpa, section.pages * 4096)).collect();
                assert_eq!(theirs, ours, "byte {at}");
            }
        }
    }
    assert!(accepted > 400 && refused > 400, "{accepted} accepted, {refused} refused");
}
