//! The rule of docs/layouts.md: the page draws exactly the layouts that the code asserts.
//!
//! Invariant: offsets, sizes and field names of page and code are equal, and no field overlaps the next.

use std::collections::BTreeMap;

use super::{Finding, Repository};

const PAGE: &str = "docs/layouts.md";
const MACRO: &str = "assert_layout! {";

/// A layout in the code or on the page.
#[derive(Debug)]
struct Layout<'a> {
    path: &'a str,
    line: usize,
    size: usize,
    fields: Vec<Field<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Field<'a> {
    name: &'a str,
    offset: usize,
}

pub(super) fn layouts(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut asserted = BTreeMap::new();
    for (path, text) in repository.sources() {
        for (at, _) in text.match_indices(MACRO) {
            let line = 1 + text[..at].matches('\n').count();
            let is_comment =
                text.lines().nth(line - 1).is_some_and(|it| it.trim_start().starts_with("//"));
            if is_comment {
                continue;
            }
            match in_code(&text[at + MACRO.len()..]) {
                Some((name, size, fields)) => {
                    asserted.insert(name, Layout { path, line, size, fields });
                }
                None => findings.push(Finding::new(
                    path,
                    line,
                    "not a layout: `Type, size { field: offset }`",
                )),
            }
        }
    }
    let drawn =
        repository.files.get(PAGE).map_or_else(BTreeMap::new, |text| on_page(text, &mut findings));
    for (name, code) in &asserted {
        match drawn.get(name) {
            None => findings.push(Finding::new(
                code.path,
                code.line,
                format!("{PAGE} does not draw `{name}`"),
            )),
            Some(page) if (page.size, &page.fields) != (code.size, &code.fields) => {
                findings.push(Finding::new(
                    PAGE,
                    page.line,
                    format!(
                        "`{name}` differs from {}: {} bytes, {:?}",
                        code.path, code.size, code.fields
                    ),
                ))
            }
            Some(_) => {}
        }
    }
    for (name, page) in &drawn {
        if !asserted.contains_key(name) {
            findings.push(Finding::new(
                PAGE,
                page.line,
                format!("no code asserts the layout of `{name}`"),
            ));
        }
    }
    findings
}

/// Name, size and fields behind [`MACRO`].
fn in_code(text: &str) -> Option<(&str, usize, Vec<Field<'_>>)> {
    let (head, rest) = text.split_once('{')?;
    let (name, size) = head.split_once(',')?;
    let (fields, _) = rest.split_once('}')?;
    let fields = fields.split(',').map(str::trim).filter(|field| !field.is_empty());
    let fields = fields.map(|field| {
        let (name, offset) = field.split_once(':')?;
        Some(Field { name: name.trim(), offset: offset.trim().parse().ok()? })
    });
    Some((name.trim(), size.trim().parse().ok()?, fields.collect::<Option<_>>()?))
}

/// The layouts of the page by name: a heading "### `Name`: N bytes", then rows of offset, bytes, field.
fn on_page<'a>(text: &'a str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, Layout<'a>> {
    let mut drawn: BTreeMap<&str, Layout<'_>> = BTreeMap::new();
    let mut current = None;
    let mut end = 0;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            current = heading(line);
            end = 0;
            if let Some((name, size)) = current {
                drawn
                    .insert(name, Layout { path: PAGE, line: index + 1, size, fields: Vec::new() });
            }
            continue;
        }
        let (Some((name, size)), Some((field, bytes))) = (current, row(line)) else { continue };
        if field.offset < end || size < field.offset + bytes {
            let what =
                format!("`{}` overlaps what is before it, or the end of `{name}`", field.name);
            findings.push(Finding::new(PAGE, index + 1, what));
        }
        end = field.offset + bytes;
        drawn.get_mut(name).expect("its heading was read").fields.push(field);
    }
    drawn
}

fn heading(line: &str) -> Option<(&str, usize)> {
    let (name, size) = line.strip_prefix("### `")?.split_once("`: ")?;
    Some((name, size.strip_suffix(" bytes")?.parse().ok()?))
}

fn row(line: &str) -> Option<(Field<'_>, usize)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let (offset, bytes, name) = (cells.next()?, cells.next()?, cells.next()?);
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    Some((Field { name, offset: offset.parse().ok()? }, bytes.parse().ok()?))
}
