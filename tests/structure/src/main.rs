//! The command line; see [`USAGE`].
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
  cycles CRATE...        print every cycle of modules with its references
  order CRATE...         print the modules in layers from top to bottom, in the format of docs/ARCHITECTURE.md
  order                  print the crates in layers
  uses CRATE[::FOLDER] FROM TO   print every reference from FROM to TO
  lines                  count the product's lines by crate: all lines, and lines of code
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

fn read(root: &Path, name: &str) -> Result<Crate, Box<dyn Error>> {
    Ok(Crate::read(root, &Path::new("crates").join(name))?)
}

/// Runs `check` on every crate and returns true if it holds for all.
fn check_each(
    root: &Path,
    crates: &[&str],
    check: fn(&Crate, &str) -> bool,
) -> Result<bool, Box<dyn Error>> {
    let mut good = true;
    for name in crates {
        good &= check(&read(root, name)?, name);
    }
    Ok(good)
}

fn cycles(code: &Crate, name: &str) -> bool {
    let mut count = 0;
    for folder in folders(code, name) {
        for tangle in folder.graph.components() {
            println!(
                "{}: {} modules reach each other: {}",
                folder.name,
                tangle.len(),
                tangle.join(" ")
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

fn order(code: &Crate, name: &str) -> bool {
    folders(code, name).iter().for_each(print_layers);
    true
}

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

fn uses(root: &Path, folder: &str, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let name = folder.split("::").next().unwrap_or(folder);
    let code = read(root, name)?;
    let folders = folders(&code, name);
    let folder = folders.iter().find(|found| found.name == folder).ok_or("no such folder")?;
    let references = folder.references.get(&(from.to_owned(), to.to_owned()));
    for reference in references.into_iter().flatten() {
        println!("{}: {}", reference.place, reference.text);
    }
    Ok(())
}

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
