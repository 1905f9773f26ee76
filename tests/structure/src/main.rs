//! The command: see [`USAGE`].
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
  cycles CRATE...        every cycle of modules, and the mentions that make it
  order CRATE...         modules in layers from top to bottom, as docs/ARCHITECTURE.md declares them
  order                  the crates themselves
  uses CRATE[::FOLDER] FROM TO   every mention of something in TO within FROM
  lines                  the product's lines by crate, with comments and blank lines, and code alone
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
        ["cycles", crates @ ..] => each(&root, crates, cycles),
        ["order"] => order_of_crates(&root).map(|()| true),
        ["order", crates @ ..] => each(&root, crates, order),
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

/// Whether `check` holds for every one of the crates.
fn each(
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
        for tangle in folder.graph.tangles() {
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
    let mentions = folder.mentions.get(&(from.to_owned(), to.to_owned()));
    for mention in mentions.into_iter().flatten() {
        println!("{}: {}", mention.place, mention.text);
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
