//! Derives the page policy, the options of profiling, and the settings of memcached's automover from the options.

use super::draft::{Draft, Given};
use slabwise_engine::EvictionKind;
use slabwise_policy::PagePolicy;
use slabwise_tuner::{AutomoveSettings, ProfilingOptions};

/// The name of the policy option that `-o objective` sets.
const OBJECTIVE: &str = "objective";
/// The default policy with `eviction=density`: there, age times chunk size is the inverse of the expected hits per
/// byte. It is also the default with `profile=off`: the best policy that needs no profiles.
const POLICY_BY_AGE: &str = "space_time";
/// The default policy with other eviction kinds, and for the objective `request_time`, if profiles are on.
const POLICY_BY_CURVES: &str = "marginal";
/// The default policy with `preset=memcached`: memcached's automover.
const POLICY_OF_PRESET: &str = "automove";

/// Sets the page policy, the profiling and the automover in the draft's settings.
pub(super) fn resolve(draft: &mut Draft) -> Result<(), String> {
    let kind = draft.given.eviction_kind(draft.settings.lru_maintainer);
    let page_policy = page_policy(&draft.given, kind)?;
    warn_of_former_names(draft);
    draft.settings.profiling = profiling(draft, &page_policy, kind)?;
    draft.settings.tunables.automove = automove(draft, &page_policy);
    draft.settings.page_policy = page_policy;
    Ok(())
}

/// Returns the page policy with its options. The policy is active only with `slab_automove=1`.
fn page_policy(given: &Given, kind: EvictionKind) -> Result<PagePolicy, String> {
    let default = default_policy(given, kind);
    let policy = given.page_policy.as_deref().unwrap_or(default);
    let (name, given_options) = match policy.split_once(':') {
        Some((name, options)) => (name, format!(":{options}")),
        None => (policy, String::new()),
    };
    let has = |name: &str, option: &str| {
        let options = PagePolicy::options(name).unwrap_or_default();
        options.iter().any(|info| info.name == option)
    };
    // If a policy option occurs twice in the text, the last value counts. The values of `slab_automove_*` and
    // `objective` are therefore added before the options that follow the policy's name.
    let mut text = name.to_owned();
    for (option, value) in automover_options(given) {
        if let Some(value) = value.filter(|_| has(name, option)) {
            text += &format!(":{option}={value}");
        }
    }
    if let Some(objective) = given.objective {
        if has(name, OBJECTIVE) {
            text += &format!(":{OBJECTIVE}={objective}");
        } else if objective != "miss_ratio" && !(objective == "cost" && minimizes_cost(name, kind))
        {
            let candidates: Vec<_> =
                PagePolicy::NAMES.into_iter().filter(|name| has(name, OBJECTIVE)).collect();
            return Err(format!(
                "-o objective={objective}: the page policy '{name}' has no option objective: give -o \
                 page_policy={}",
                candidates.join(" or ")
            ));
        }
    }
    text += &given_options;
    PagePolicy::parse(&text).map_err(|error| format!("-o page_policy={text}: {error}"))
}

/// True if the policy minimizes the cost of misses with this eviction kind, although it has no option for it.
fn minimizes_cost(policy: &str, kind: EvictionKind) -> bool {
    policy == POLICY_BY_AGE && kind == EvictionKind::Density
}

/// Returns the policy that is used without `-o page_policy`.
fn default_policy(given: &Given, kind: EvictionKind) -> &'static str {
    if given.memcached_preset {
        return POLICY_OF_PRESET;
    }
    let can_profile = given.profile != Some(false);
    let is_by_curves = kind != EvictionKind::Density || given.objective == Some("request_time");
    if can_profile && is_by_curves { POLICY_BY_CURVES } else { POLICY_BY_AGE }
}

/// Warns if `-o page_policy` contains former names of options.
fn warn_of_former_names(draft: &mut Draft) {
    let text = draft.given.page_policy.clone().unwrap_or_default();
    let options = text.split(':').skip(1).filter_map(|option| option.split_once('='));
    for (former, current) in
        options.filter_map(|(name, _)| Some((name, PagePolicy::current_name(name)?)))
    {
        draft.warn_of_former("-o page_policy", former, current);
    }
}

/// Returns the two options of the page policy `automove`, memcached's automover. Each has the value of the option of
/// `-o` that also sets it (`slab_automove_window` or `slab_automove_ratio`), or `None` if that option is not given.
fn automover_options(given: &Given) -> [(&'static str, Option<String>); 2] {
    let window = given.automove_window.map(|seconds| seconds.to_string());
    let ratio = given.automove_ratio.map(|ratio| ratio.to_string());
    [(AutomoveSettings::WINDOW_OPTION, window), (AutomoveSettings::RATIO_OPTION, ratio)]
}

/// Returns the settings of memcached's automover. `stats settings` shows these settings even if another policy is
/// active.
fn automove(draft: &Draft, page_policy: &PagePolicy) -> AutomoveSettings {
    let automover =
        PagePolicy::named(POLICY_OF_PRESET).expect("the registry contains memcached's automover");
    let [window, ratio] = automover_options(&draft.given).map(|(option, given)| {
        let value = page_policy.value(option).or(given).or_else(|| automover.value(option));
        value.expect("memcached's automover has this option")
    });
    AutomoveSettings {
        level: draft.settings.tunables.automove.level,
        window_seconds: window.parse().expect("the window is a whole number of seconds"),
        age_ratio: ratio.parse().expect("the age ratio is a number"),
    }
}

/// Returns the options of profiling, or `None` if profiling is off. Returns an error if the page policy needs profiles
/// but profiling is off, or if the memory of profiling is too small.
fn profiling(
    draft: &mut Draft,
    page_policy: &PagePolicy,
    kind: EvictionKind,
) -> Result<Option<ProfilingOptions>, String> {
    let given = &draft.given;
    let learns_densities = kind == EvictionKind::Density;
    if given.profile == Some(false) && learns_densities {
        return Err("-o profile=off: eviction=density learns from the profiled requests: leave \
                    profile=off out, or choose another eviction kind"
            .to_owned());
    }
    let is_needed = page_policy.inputs().needs_profiles() || learns_densities;
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
                "-o profile_memory={bytes} has no effect, as profiling is off: leave profile_memory \
                 out, or add profile=on"
            ));
        }
        return Ok(None);
    }
    let memory_limit_bytes = draft.settings.engine.memory_limit_bytes;
    let default = ProfilingOptions::default_memory_bytes(memory_limit_bytes);
    let memory_bytes = draft.given.profile_memory_bytes.unwrap_or(default);
    let options = ProfilingOptions::within(memory_bytes).ok_or_else(|| {
        let least = ProfilingOptions::MEMORY_BYTES_MIN;
        format!(
            "-o profile_memory={memory_bytes} is below the minimum, {least} bytes: raise \
             profile_memory, or give profile=off"
        )
    })?;
    let is_full = draft.given.profile_is_full;
    Ok(Some(if is_full { options.of_every_access() } else { options }))
}
