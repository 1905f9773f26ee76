//! Sends the same random commands to two servers, and compares the bytes of each reply.
//!
//! ```text
//!   generate --> steps --> player (memcached) --> reply --.
//!                  |                                      compare --> equal, a listed difference, or
//!                  '-----> player (slabwise) ---> reply --'           an unlisted one --> shrink --> report
//! ```
//!
//! The program fails if it finds a difference that no row of [`differences::LISTED`] explains. It then prints the seed,
//! a short sequence of commands that shows the difference, and both replies. `normalise.rs` lists the parts of replies
//! that are not compared.

#![forbid(unsafe_code)]

mod compare;
mod differences;
mod generate;
mod keys;
mod normalise;
mod player;
mod random;
mod report;
mod run;
mod shrink;
mod step;

use clap::{Parser, ValueEnum};
use generate::Generator;
use report::Counts;
use run::{Difference, Pair};
use shrink::{Shrunk, shrink};
use slabwise_client::process::ServerCommand;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use step::{Family, Step};

/// The number of steps after which all items are removed.
const EPISODE_LEN: usize = 500;
/// The number of episodes after which a step flushes all items.
const EPISODES_PER_FLUSH: u64 = 100;

/// Send the same random commands to two servers, and compare the bytes of each reply.
#[derive(Debug, Parser)]
#[command(name = "differential")]
struct Args {
    /// Program of memcached
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    memcached: PathBuf,
    /// Program of slabwise
    #[arg(long, value_name = "PATH", default_value = "target/debug/slabwise")]
    slabwise: PathBuf,
    /// Compare two servers of this program, which must have no difference
    #[arg(long = "self", value_name = "PROGRAM")]
    with_itself: Option<Program>,
    /// Seed of the commands [default: a random seed]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of commands
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    commands: u64,
    /// Families of commands
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "text,meta,binary")]
    protocol: Vec<Protocol>,
    /// Number of unlisted differences after which the run ends
    #[arg(long, value_name = "N", default_value_t = 1)]
    limit: usize,
}

/// A program that can be compared with itself.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    Memcached,
    Slabwise,
}

/// A family of commands.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    Text,
    Meta,
    Binary,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the comparison. Returns the number of unlisted differences.
fn run(args: &Args) -> Result<usize, String> {
    let (memcached, slabwise) = (memcached_command(args), slabwise_command(args));
    let commands = match args.with_itself {
        None => [memcached, slabwise],
        Some(Program::Memcached) => [memcached.clone(), memcached],
        Some(Program::Slabwise) => [slabwise.clone(), slabwise],
    };
    let seed = args.seed.unwrap_or_else(random_seed);
    let families: Vec<Family> = args.protocol.iter().map(|&protocol| protocol.family()).collect();
    let mut pair = Pair::start(&commands).map_err(|error| error.to_string())?;
    let versions = pair.versions().map_err(|error| error.to_string())?;
    println!(
        "{} ({}), {} ({})",
        commands[0].program(),
        versions[0],
        commands[1].program(),
        versions[1]
    );
    println!("--seed {seed}");
    let mut generator = Generator::new(seed, &families);
    let mut counts = Counts::default();
    let mut unlisted = 0;
    for episode in 1.. {
        if counts.steps() >= args.commands || unlisted >= args.limit {
            break;
        }
        let steps = episode_steps(&mut generator, episode);
        let difference = pair.play(&steps, |step, reply| counts.add(step, reply));
        if let Some(difference) = difference.map_err(|error| error.to_string())? {
            match difference.listed {
                Some(listed) if difference.mismatch.is_some() => counts.add_listed(listed),
                Some(_) => {}
                None => {
                    unlisted += 1;
                    report_unlisted(&commands, steps, difference)?;
                    pair = Pair::start(&commands).map_err(|error| error.to_string())?;
                }
            }
        }
        pair.clear().map_err(|error| error.to_string())?;
        generator.clear();
    }
    print!("{counts}");
    println!("{unlisted} unlisted differences; --seed {seed}");
    Ok(unlisted)
}

/// Returns the steps of an episode.
fn episode_steps(generator: &mut Generator, episode: u64) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..EPISODE_LEN).map(|_| generator.step()).collect();
    if episode.is_multiple_of(EPISODES_PER_FLUSH) {
        steps[EPISODE_LEN / 2] = generator.flush();
    }
    steps
}

/// Shrinks the steps that show an unlisted difference, and prints them.
fn report_unlisted(
    commands: &[ServerCommand; 2],
    mut steps: Vec<Step>,
    difference: Difference,
) -> Result<(), String> {
    steps.truncate(difference.index + 1);
    let shrunk = shrink(commands, steps.clone()).map_err(|error| error.to_string())?;
    match shrunk {
        Some(Shrunk { steps, difference }) => report::print_difference(&steps, &difference),
        None => {
            println!("The next difference depends on earlier episodes:");
            report::print_difference(&steps, &difference);
        }
    }
    Ok(())
}

impl Protocol {
    fn family(self) -> Family {
        match self {
            Protocol::Text => Family::Text,
            Protocol::Meta => Family::Meta,
            Protocol::Binary => Family::Binary,
        }
    }
}

/// Returns the command of memcached.
fn memcached_command(args: &Args) -> ServerCommand {
    server_command(&args.memcached, "1")
}

/// Returns the command of slabwise.
fn slabwise_command(args: &Args) -> ServerCommand {
    server_command(&args.slabwise, "2")
}

/// Returns the command of a server with enough memory that it evicts nothing.
///
/// memcached changes a number in place only if nothing else refers to its item, and the value then keeps its length.
/// Therefore memcached runs with one thread, so that no reply of another connection refers to an item, and without the
/// maintainer of the LRU, so that no queue of items to bump refers to an item.
fn server_command(program: &Path, threads: &str) -> ServerCommand {
    ServerCommand::on_free_port(program)
        .with(&["-m", "1024", "-t", threads, "-o", "no_lru_maintainer"])
        .logging_to(Path::new("/dev/null"))
}

/// Returns a seed that differs from run to run.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
