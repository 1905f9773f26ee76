//! Derives the page policy, the profiling options and the settings of memcached's automover.

use super::settings::{Draft, Given};
use slabwise_policy::PagePolicy;
use slabwise_tuner::{AutomoveSettings, ProfilingOptions};

const OBJECTIVE: &str = "objective";
const POLICY_DEFAULT: &str = "marginal";
/// The best policy that needs no profiles.
const POLICY_WITHOUT_PROFILES: &str = "space_time";
/// memcached's policy.
const POLICY_OF_PRESET: &str = "automove";

/// Profiling uses this fraction of the memory limit, plus [`PROFILE_MEMORY_BYTES_FIXED`].
const PROFILE_MEMORY_DIVISOR: u64 = 50;
const PROFILE_MEMORY_BYTES_FIXED: u64 = 1 << 20;

pub(super) fn resolve(draft: &mut Draft) -> Result<(), String> {
    let page_policy = page_policy(&draft.given)?;
    warn_of_former_names(draft);
    draft.settings.profiling = profiling(draft, &page_policy)?;
    draft.settings.tunables.automove = automove(draft, &page_policy);
    draft.settings.page_policy = page_policy;
    Ok(())
}

/// Returns the page policy with its options. Whether it runs depends on `slab_automove`.
fn page_policy(given: &Given) -> Result<PagePolicy, String> {
    let default = match given.profile {
        _ if given.memcached_preset => POLICY_OF_PRESET,
        Some(false) => POLICY_WITHOUT_PROFILES,
        _ => POLICY_DEFAULT,
    };
    let policy = given.page_policy.as_deref().unwrap_or(default);
    let (name, given_options) = match policy.split_once(':') {
        Some((name, options)) => (name, format!(":{options}")),
        None => (policy, String::new()),
    };
    let has = |name: &str, option: &str| {
        let options = PagePolicy::options(name).unwrap_or_default();
        options.iter().any(|info| info.name == option)
    };
    // The last value of an option wins, so the values of separate options come first.
    let mut text = name.to_owned();
    for (option, value) in automover_options(given) {
        if let Some(value) = value.filter(|_| has(name, option)) {
            text += &format!(":{option}={value}");
        }
    }
    if let Some(objective) = given.objective {
        if has(name, OBJECTIVE) {
            text += &format!(":{OBJECTIVE}={objective}");
        } else if objective != "miss_ratio" {
            let candidates: Vec<_> =
                PagePolicy::NAMES.into_iter().filter(|name| has(name, OBJECTIVE)).collect();
            return Err(format!(
                "-o objective={objective}: page policy '{name}' has no option objective: give -o \
                 page_policy={}",
                candidates.join(" or ")
            ));
        }
    }
    text += &given_options;
    PagePolicy::parse(&text).map_err(|error| format!("-o page_policy={text}: {error}"))
}

fn warn_of_former_names(draft: &mut Draft) {
    let text = draft.given.page_policy.clone().unwrap_or_default();
    let options = text.split(':').skip(1).filter_map(|option| option.split_once('='));
    for (former, current) in
        options.filter_map(|(name, _)| Some((name, PagePolicy::current_name(name)?)))
    {
        draft.warn_of_former("-o page_policy", former, current);
    }
}

/// Returns the options of memcached's automover with the values of `slab_automove_*`.
fn automover_options(given: &Given) -> [(&'static str, Option<String>); 2] {
    let window = given.automove_window.map(|seconds| seconds.to_string());
    let ratio = given.automove_ratio.map(|ratio| ratio.to_string());
    [(AutomoveSettings::WINDOW_OPTION, window), (AutomoveSettings::RATIO_OPTION, ratio)]
}

/// Returns the settings of memcached's automover, which `stats settings` shows under every policy.
fn automove(draft: &Draft, page_policy: &PagePolicy) -> AutomoveSettings {
    let memcacheds = PagePolicy::named(POLICY_OF_PRESET).expect("it is registered");
    let [window, ratio] = automover_options(&draft.given).map(|(option, given)| {
        let value = page_policy.value(option).or(given).or_else(|| memcacheds.value(option));
        value.expect("memcached's automover has it")
    });
    AutomoveSettings {
        level: draft.settings.tunables.automove.level,
        window_seconds: window.parse().expect("it is a whole number"),
        age_ratio: ratio.parse().expect("it is a number"),
    }
}

/// Returns the profiling options; `None` if profiling is off.
fn profiling(
    draft: &mut Draft,
    page_policy: &PagePolicy,
) -> Result<Option<ProfilingOptions>, String> {
    let given = &draft.given;
    let is_needed = page_policy.wants().needs_profiles();
    if given.profile == Some(false) && is_needed {
        return Err(format!(
            "-o profile=off: page_policy={} needs profiles: leave profile=off out, or choose \
             another policy",
            page_policy.name()
        ));
    }
    if given.profile == Some(false)
        || given.memcached_preset && given.profile.is_none() && !is_needed
    {
        if let Some(bytes) = given.profile_memory_bytes {
            draft.warn(format!(
                "-o profile_memory={bytes} has no effect, as profiling is off: leave it out, or \
                 add profile=on"
            ));
        }
        return Ok(None);
    }
    let memory_limit_bytes = draft.settings.engine.memory_limit_bytes;
    let default = memory_limit_bytes / PROFILE_MEMORY_DIVISOR + PROFILE_MEMORY_BYTES_FIXED;
    let memory_bytes = draft.given.profile_memory_bytes.unwrap_or(default);
    let options = ProfilingOptions::within(memory_bytes).ok_or_else(|| {
        let least = ProfilingOptions::MEMORY_BYTES_MIN;
        format!(
            "-o profile_memory={memory_bytes} is below the minimum, {least} bytes: raise it, or \
             give profile=off"
        )
    })?;
    Ok(Some(options))
}
