//! The canonical bytes of a RIM: Canonical XML 1.1 without comments, as far as the dialect of `token` reaches.

use super::token::Tag;

/// The namespaces of a RIM by prefix; the parser accepts no other declaration.
pub(super) const NAMESPACES: [(&str, &str); 6] = [
    ("", SWID),
    ("SHA384", SHA384),
    ("ds", "http://www.w3.org/2000/09/xmldsig#"),
    ("ns0", SWID),
    (
        "ns1",
        "https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/",
    ),
    ("ns2", SHA384),
];

const SWID: &str = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd";
const SHA384: &str = "http://www.w3.org/2001/04/xmlenc#sha384";

/// Returns the prefix that an attribute declares, empty for the default namespace.
pub(super) fn declared(attribute: &str) -> Option<&str> {
    match attribute {
        "xmlns" => Some(""),
        _ => attribute.strip_prefix("xmlns:"),
    }
}

/// Returns the namespace of a prefix.
pub(super) fn namespace(prefix: &str) -> Option<&'static str> {
    NAMESPACES.iter().find(|(known, _)| *known == prefix).map(|(_, uri)| *uri)
}

/// Writes a start tag: declarations sorted by prefix, then attributes sorted by namespace and local name.
///
/// `inherited` are prefixes declared further out that this tag, the first of its node set, has to repeat. An empty
/// element is a start tag and an end tag. Values hold nothing that canonical form would escape (`token`).
///
/// Source: W3C Canonical XML 1.1, sections 2.3 and 2.4.
pub(super) fn start(out: &mut Vec<u8>, tag: &Tag<'_>, inherited: &[&str]) {
    let mut declarations: Vec<(&str, &str)> =
        inherited.iter().filter_map(|prefix| Some((*prefix, namespace(prefix)?))).collect();
    let mut attributes = Vec::new();
    for (name, value) in &tag.attributes {
        match (declared(name), name.split_once(':')) {
            (Some(prefix), _) => declarations.push((prefix, value)),
            (None, Some((prefix, local))) => attributes.push((namespace(prefix), local, *name, *value)),
            // No default namespace for attributes: `None` sorts first, as canonical form wants it.
            (None, None) => attributes.push((None, *name, *name, *value)),
        }
    }
    declarations.sort_unstable();
    attributes.sort_unstable();
    push(out, &["<", tag.name]);
    for (prefix, uri) in declarations {
        match prefix {
            "" => push(out, &[" xmlns=\"", uri, "\""]),
            _ => push(out, &[" xmlns:", prefix, "=\"", uri, "\""]),
        }
    }
    for (_, _, name, value) in attributes {
        push(out, &[" ", name, "=\"", value, "\""]);
    }
    push(out, &[">"]);
    if tag.empty {
        end(out, tag.name);
    }
}

/// Writes an end tag.
pub(super) fn end(out: &mut Vec<u8>, name: &str) {
    push(out, &["</", name, ">"]);
}

/// Writes text, which holds nothing that canonical form would escape.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    push(out, &[text]);
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tag: &Tag<'_>, inherited: &[&str]) -> String {
        let mut out = Vec::new();
        start(&mut out, tag, inherited);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn attributes_are_sorted_by_namespace_then_by_name_in_code_points() {
        let tag = Tag {
            name: "ns0:Resource",
            attributes: vec![
                ("type", "t"),
                ("ns2:Hash2", "2"),
                ("ns2:Hash10", "10"),
                ("ns1:Z", "z"),
                ("PayloadType", "p"),
                ("active", "a"),
            ],
            empty: true,
        };
        assert_eq!(
            written(&tag, &[]),
            "<ns0:Resource PayloadType=\"p\" active=\"a\" type=\"t\" ns2:Hash10=\"10\" ns2:Hash2=\"2\" ns1:Z=\"z\">\
             </ns0:Resource>"
        );
    }

    #[test]
    fn declarations_come_first_and_the_default_one_before_all() {
        let tag = Tag {
            name: "a",
            attributes: vec![("x", "1"), ("xmlns:ns0", "n"), ("xmlns", "d"), ("xmlns:SHA384", "s")],
            empty: false,
        };
        assert_eq!(written(&tag, &[]), "<a xmlns=\"d\" xmlns:SHA384=\"s\" xmlns:ns0=\"n\" x=\"1\">");
    }

    #[test]
    fn the_apex_of_a_node_set_repeats_what_it_inherits() {
        let tag = Tag { name: "ds:SignedInfo", attributes: Vec::new(), empty: false };
        let shown = written(&tag, &["", "ds", "ns0", "ns2"]);
        assert_eq!(
            shown,
            format!(
                "<ds:SignedInfo xmlns=\"{SWID}\" xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\" \
                 xmlns:ns0=\"{SWID}\" xmlns:ns2=\"{SHA384}\">"
            )
        );
    }
}
