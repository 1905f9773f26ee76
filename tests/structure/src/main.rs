//! The command `structure`, which prints cycles, layers, references and line counts. [`USAGE`] lists its commands.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use structure::folders::{Folder, folders};
use structure::layers::crate_graph;
use structure::lines::{Lines, product_lines};
use structure::source::{Crate, crate_names};

const USAGE: &str = "\
structure [--root FOLDER] COMMAND
  cycles CRATE...        print every cycle of modules, with the references that form it
  order CRATE...         print the modules in layers from top to bottom, in the format of docs/ARCHITECTURE.md
  order                  print the crates in layers from top to bottom
  uses CRATE[::FOLDER] FROM TO   print every reference from module FROM to module TO of the crate or folder
  lines                  count the lines of product code in each crate: all lines, and lines with code
";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    if args.first().is_some_and(|first| first == "--root") && args.len() > 1 {
        root = PathBuf::from(args.remove(1));
        args.remove(0);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["cycles", crates @ ..] => check_each(&root, crates, cycles),
        ["order"] => order_of_crates(&root).map(|()| true),
        ["order", crates @ ..] => check_each(&root, crates, order),
        ["lines"] => lines(&root).map(|()| true),
        ["uses", folder, from, to] => uses(&root, folder, from, to).map(|()| true),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Reads the product code of a crate.
fn read(root: &Path, name: &str) -> Result<Crate, Box<dyn Error>> {
    Ok(Crate::read(root, &Path::new("crates").join(name))?)
}

/// Runs `check` on each crate. Returns true if the check returns true for all crates.
fn check_each(
    root: &Path,
    crates: &[&str],
    check: fn(&Crate, &str) -> bool,
) -> Result<bool, Box<dyn Error>> {
    let mut all_passed = true;
    for name in crates {
        all_passed &= check(&read(root, name)?, name);
    }
    Ok(all_passed)
}

/// Prints the cycles of a crate's modules. Returns true if there is no cycle.
fn cycles(code: &Crate, name: &str) -> bool {
    let mut count = 0;
    for folder in folders(code, name) {
        for component in folder.graph.components() {
            println!(
                "{}: {} modules use each other, directly or indirectly: {}",
                folder.name,
                component.len(),
                component.join(" ")
            );
        }
        for cycle in folder.graph.cycles() {
            count += 1;
            println!("  {}: {}", folder.name, cycle.join(" -> "));
            println!("{}", folder.describe_chain(&cycle));
        }
    }
    println!("{name}: {count} cycles");
    count == 0
}

/// Prints the layers of each folder of a crate.
fn order(code: &Crate, name: &str) -> bool {
    folders(code, name).iter().for_each(print_layers);
    true
}

/// Prints the layers of the crates.
fn order_of_crates(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut crates = vec![Crate::read(root, Path::new(""))?];
    for name in crate_names(root)? {
        crates.push(read(root, &name)?);
    }
    print_layers(&crate_graph(&crates));
    Ok(())
}

fn print_layers(folder: &Folder) {
    println!("```layers {}", folder.name);
    for layer in folder.graph.layers() {
        println!("{}", layer.join(" "));
    }
    println!("```");
}

/// Prints the references from one module of a folder to another.
fn uses(root: &Path, folder: &str, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let name = folder.split("::").next().unwrap_or(folder);
    let code = read(root, name)?;
    let folders = folders(&code, name);
    let folder = folders
        .iter()
        .find(|found| found.name == folder)
        .ok_or_else(|| format!("the crate {name} has no folder {folder}"))?;
    let references = folder.references.get(&(from.to_owned(), to.to_owned()));
    for reference in references.into_iter().flatten() {
        println!("{}: {}", reference.place, reference.text);
    }
    Ok(())
}

/// Prints the number of product lines of each crate.
fn lines(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut total = Lines::default();
    println!("{:12} {:>7} {:>7}", "crate", "lines", "code");
    for name in crate_names(root)? {
        let lines = product_lines(&read(root, &name)?);
        println!("{name:12} {:>7} {:>7}", lines.all, lines.code);
        total += lines;
    }
    println!("{:12} {:>7} {:>7}", "all", total.all, total.code);
    Ok(())
}
