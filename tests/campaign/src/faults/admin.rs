//! Commands that change the server while it works: page moves, class tables, flushes, settings, the clock.

use super::process::needs_free_space;
use super::{FaultError, Scene};
use crate::checker::history::Span;
use std::time::Duration;

/// The time for which a stopped clock may still have an effect after its end.
const STALL_ECHO: Duration = Duration::from_millis(500);

/// Moves a few pages between random classes.
pub(super) fn move_page(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut console = scene.console()?;
    let rows = console.ask_rows("stats slabs")?;
    let classes: Vec<u64> = rows.slab_classes().iter().map(|class| class.number).collect();
    for _ in 0..1 + scene.random.below(8) {
        if classes.is_empty() {
            break;
        }
        let draw =
            |scene: &mut Scene<'_>| classes[scene.random.below(classes.len() as u64) as usize];
        let victim = if scene.random.below(4) == 0 { -1 } else { draw(scene) as i64 };
        let receiver = if scene.random.below(8) == 0 { 0 } else { draw(scene) };
        let reply = console.ask_line(&format!("slabs reassign {victim} {receiver}"))?;
        match reply.split(' ').next().unwrap_or_default() {
            "OK" => scene.count(),
            "BUSY" | "NOTFULL" | "SAME" | "NOSPARE" | "BADCLASS" => {}
            _ => return Err(FaultError::Wrong(format!("slabs reassign has the reply {reply:?}"))),
        }
    }
    Ok(())
}

/// Sets a random class table, or lets the server learn one.
pub(super) fn set_classes(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut console = scene.console()?;
    let command = if scene.random.below(3) == 0 {
        "slabs classes learned".to_owned()
    } else {
        let count = 2 + scene.random.below(40);
        let mut size = 48 + 8 * scene.random.below(8);
        let mut sizes = Vec::new();
        for _ in 0..count {
            sizes.push(size.to_string());
            size += 8 * (1 + size * (1 + scene.random.below(6)) / 64);
            if size > 12_000 {
                break;
            }
        }
        format!("slabs classes {}", sizes.join("-"))
    };
    let reply = console.ask_line(&command)?;
    match reply.split(' ').next().unwrap_or_default() {
        "OK" => scene.count(),
        "SERVER_ERROR" | "CLIENT_ERROR" => {}
        _ => return Err(FaultError::Wrong(format!("{command} has the reply {reply:?}"))),
    }
    Ok(())
}

/// Changes the level of automatic page moves.
pub(super) fn set_automove(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let level = scene.random.below(3);
    let reply = scene.console()?.ask_line(&format!("slabs automove {level}"))?;
    match reply.as_str() {
        "OK" => scene.count(),
        _ => {
            return Err(FaultError::Wrong(format!(
                "slabs automove {level} has the reply {reply:?}"
            )));
        }
    }
    Ok(())
}

/// Flushes all items. With memcached, a flush only removes items that were last used before the current second, so it
/// is no evidence.
pub(super) fn flush(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut console = scene.console()?;
    let world = scene.world;
    let begin = world.stamps.open(scene.slot);
    let reply = console.ask_line("flush_all");
    if reply.as_ref().is_ok_and(|reply| reply == "OK") {
        let end = world.stamps.take();
        if !world.is_memcached {
            world.checker.all_absent(Span { begin, end });
        }
        scene.count();
    }
    world.stamps.close(scene.slot);
    match reply?.as_str() {
        "OK" => Ok(()),
        reply => Err(FaultError::Wrong(format!("flush_all has the reply {reply:?}"))),
    }
}

/// Changes settings of the LRU queues, the crawler, statistics and the log.
pub(super) fn change_settings(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    const COMMANDS: [&str; 17] = [
        "lru mode flat",
        "lru mode segmented",
        "lru mode segmented",
        "lru tune 10 20 0.1 1.0",
        "lru tune 20 40 0.2 2.0",
        "lru temp_ttl 30",
        "lru temp_ttl -1",
        "lru_crawler crawl all",
        "lru_crawler tocrawl 100",
        "lru_crawler tocrawl 0",
        "lru_crawler sleep 0",
        "slabs automove window 3",
        "slabs automove ratio 0.9",
        "stats detail on",
        "stats detail off",
        "stats reset",
        "verbosity 1",
    ];
    let mut console = scene.console()?;
    for _ in 0..1 + scene.random.below(4) {
        let command = COMMANDS[scene.random.below(COMMANDS.len() as u64) as usize];
        let reply = console.ask_line(command)?;
        match reply.split(' ').next().unwrap_or_default() {
            "OK" | "RESET" => scene.count(),
            // A crawl may be in progress.
            "BUSY" => {}
            // Some eviction kinds have fixed queues.
            "CLIENT_ERROR" if command.starts_with("lru mode") => {}
            _ => return Err(FaultError::Wrong(format!("{command} has the reply {reply:?}"))),
        }
    }
    Ok(())
}

/// Lowers the memory limit, and restores it later.
pub(super) fn change_memory_limit(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut console = scene.console()?;
    let memory_mib = scene.memory_mib;
    let full_file_systems = &scene.world.full_file_systems;
    let lowered = (memory_mib * (40 + scene.random.below(60)) / 100).max(9);
    for limit in [lowered, memory_mib] {
        let command = format!("cache_memlimit {limit}");
        let full_before = full_file_systems.epoch();
        let reply = console.ask_line(&command)?;
        match reply.split(' ').next().unwrap_or_default() {
            "OK" => scene.count(),
            // memcached refuses the command with -e.
            _ if scene.world.is_memcached => {}
            "SERVER_ERROR"
                if needs_free_space(&reply) && full_file_systems.were_active_since(full_before) => {
            }
            _ => return Err(FaultError::Wrong(format!("{command} has the reply {reply:?}"))),
        }
        let millis = scene.random.below(2000);
        scene.wait(Duration::from_millis(millis));
    }
    Ok(())
}

/// Advances the server's clock by some seconds.
pub(super) fn jump_clock(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let seconds = 1 + scene.random.below(30);
    let mut console = scene.console()?;
    scene.world.begin_clock_jump(seconds);
    let reply = console.ask_line(&format!("debugtime {seconds}"))?;
    if reply != "OK" {
        return Err(FaultError::Wrong(format!("debugtime has the reply {reply:?}")));
    }
    scene.world.end_clock_jump(seconds);
    scene.count();
    Ok(())
}

/// Stops the server's clock for a short time.
pub(super) fn pause_clock(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let millis = 100 + scene.random.below(2000);
    let mut console = scene.console()?;
    // No other fault may end the process, or this connection, while the clock is paused.
    let host = scene.host.lock().expect("no thread panics with this lock");
    let _stall = scene.world.stall();
    for command in ["debugtime p", "debugtime r"] {
        let reply = console.ask_line(command)?;
        if reply != "OK" {
            return Err(FaultError::Wrong(format!("{command} has the reply {reply:?}")));
        }
        scene.wait(Duration::from_millis(millis));
    }
    scene.count();
    drop(host);
    scene.wait(STALL_ECHO);
    Ok(())
}

/// Pins some items, so that page moves have to work around them.
pub(super) fn pin_items(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut console = scene.console()?;
    for _ in 0..20 {
        let key = scene.world.keys.draw(&mut scene.random);
        let name = String::from_utf8_lossy(scene.world.keys.name(key)).into_owned();
        match console.ask_line(&format!("debugitem ref {name}"))?.as_str() {
            "OK" => scene.count(),
            "MISS" => {}
            reply => return Err(FaultError::Wrong(format!("debugitem has the reply {reply:?}"))),
        }
    }
    let millis = scene.random.below(3000);
    scene.wait(Duration::from_millis(millis));
    Ok(())
}

/// Replaces the certificate of a server with TLS.
pub(super) fn refresh_certificates(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let host = scene.host.lock().expect("no thread panics with this lock");
    let Some(certificates) = &host.certificates else { return Ok(()) };
    certificates.renew()?;
    let reply = scene.console()?.ask_line("refresh_certs")?;
    match reply.as_str() {
        "OK" => scene.count(),
        _ => return Err(FaultError::Wrong(format!("refresh_certs has the reply {reply:?}"))),
    }
    Ok(())
}
