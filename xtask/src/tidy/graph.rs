//! Data from cargo: the members of the workspace and the tree of the default build.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

/// A member of the workspace, with the properties that the rules need.
#[derive(Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the package.
    pub name: String,
    /// The packages on which its code (not its tests) and its build script depend.
    pub dependencies: BTreeSet<String>,
    /// True if it has benchmarks.
    pub has_benches: bool,
}

/// The packages of the default build, without those that only tests need.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Name and version.
    pub packages: BTreeSet<(String, String)>,
    /// The packages that declare a native library, with its name.
    pub links: BTreeMap<(String, String), String>,
}

/// The members, in the order in which cargo lists them.
pub fn members(root: &Path) -> Result<Vec<Member>, String> {
    let metadata = cargo(root, &["metadata", "--locked", "--no-deps", "--format-version", "1"])?;
    read_members(&json(&metadata)?)
}

/// The tree of `package` on this machine's platform.
pub fn tree(root: &Path, package: &str) -> Result<Tree, String> {
    let listing = cargo(
        root,
        &["tree", "--locked", "-p", package, "-e", "normal,build", "--prefix", "none", "-f", "{p}"],
    )?;
    let platform = host(root)?;
    let metadata = cargo(
        root,
        &["metadata", "--locked", "--filter-platform", &platform, "--format-version", "1"],
    )?;
    read_tree(&listing, &json(&metadata)?)
}

fn read_members(metadata: &Value) -> Result<Vec<Member>, String> {
    packages(metadata)?
        .iter()
        .map(|package| {
            let dependencies = array(package, "dependencies")?
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| text(dependency, "name"))
                .collect::<Result<_, _>>()?;
            let has_benches = array(package, "targets")?.iter().any(|target| {
                target["kind"].as_array().is_some_and(|k| k.contains(&"bench".into()))
            });
            Ok(Member { name: text(package, "name")?, dependencies, has_benches })
        })
        .collect()
}

fn read_tree(listing: &str, metadata: &Value) -> Result<Tree, String> {
    let packages: BTreeSet<(String, String)> = listing
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let version = rest.split(' ').next()?.strip_prefix('v')?;
            Some((name.into(), version.into()))
        })
        .collect();
    let mut links = BTreeMap::new();
    for package in self::packages(metadata)? {
        let key = (text(package, "name")?, text(package, "version")?);
        if let Some(library) = package["links"].as_str()
            && packages.contains(&key)
        {
            links.insert(key, library.into());
        }
    }
    Ok(Tree { packages, links })
}

fn packages(metadata: &Value) -> Result<&Vec<Value>, String> {
    array(metadata, "packages")
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("cargo metadata has no list `{key}`"))
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value[key].as_str().map(Into::into).ok_or_else(|| format!("cargo metadata has no text `{key}`"))
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("reading cargo metadata: {error}"))
}

fn host(root: &Path) -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    output(root, &rustc, &["-vV"])?
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(Into::into))
        .ok_or_else(|| "rustc -vV names no host".into())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, String> {
    output(root, &crate::cargo(), arguments)
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let command = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dependencies of tests do not count, those of build scripts do.
    #[test]
    fn members_are_read_without_what_tests_need() {
        let metadata = serde_json::json!({"packages": [{
            "name": "damrak-wire",
            "targets": [{"kind": ["lib"]}, {"kind": ["bench"]}],
            "dependencies": [
                {"name": "damrak-market", "kind": null},
                {"name": "proptest", "kind": "dev"},
                {"name": "cc", "kind": "build"},
            ],
        }]});
        assert_eq!(
            read_members(&metadata),
            Ok(vec![Member {
                name: "damrak-wire".into(),
                dependencies: ["cc".into(), "damrak-market".into()].into(),
                has_benches: true,
            }])
        );
    }

    /// The tree has only the packages of the build, not every package that cargo has locked.
    #[test]
    fn tree_is_read_without_what_is_only_locked() {
        let listing =
            "damrak v0.1.0 (/somewhere)\nserde v1.0.2\n\nring v0.17.0\nserde v1.0.2 (*)\n";
        let metadata = serde_json::json!({"packages": [
            {"name": "ring", "version": "0.17.0", "links": "ring_core"},
            {"name": "openssl-sys", "version": "0.9.0", "links": "openssl"},
            {"name": "serde", "version": "1.0.2", "links": null},
        ]});
        let ring = ("ring".to_owned(), "0.17.0".to_owned());
        let tree = read_tree(listing, &metadata).unwrap();
        assert_eq!(tree.packages.len(), 3);
        assert_eq!(tree.links, [(ring, "ring_core".to_owned())].into());
    }
}
