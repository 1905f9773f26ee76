//! Commands that change the server while it works: page moves, class tables, flushes.

use super::{FaultError, Scene};
use crate::checker::history::Span;

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
