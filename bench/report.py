"""Writes docs/measurements.md and the table of measurements in README.md from the results of bench/compare.

    python3 bench/report.py            writes both files from docs/measurements.json
    python3 bench/report.py --check    writes nothing, and fails if one of the two files would change, or if a section
                                       of README.md's table has no results
"""

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

from servers import KINDS, ROOT

MIB = 1 << 20


def machine():
    """Returns today's date, the commit of the sources, and a description of this machine."""
    cpu = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "machine": f"{os.cpu_count()} cores of {cpu}, {memory_kib >> 20} GiB, Linux {platform.release()}",
    }


RESULTS = ROOT / "docs" / "measurements.json"


def results():
    """Returns the results in docs/measurements.json: for each section a list with one result for each version of
    memcached, the newest version first."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def store(name, memcached, rows):
    """Stores the result of a section for a version of memcached, and writes the report and the table in README.md."""
    found = results()
    others = [result for result in found.get(name, []) if result["memcached"] != memcached]
    found[name] = [{"memcached": memcached, "machine": machine(), "rows": rows}, *others]
    found[name].sort(key=lambda result: version_key(result["memcached"]), reverse=True)
    RESULTS.write_text(json.dumps(found, indent=1))
    for path, text in texts(found).items():
        path.write_text(text)


def version_key(version):
    return [int(part) for part in version.split(".")]


def texts(found):
    """Returns the text of each file that the results determine."""
    parts = [HEAD]
    for name, (title, body) in SECTIONS.items():
        if name in found:
            bodies = [f"{body(result['rows'])}\n{origin(name, result)}" for result in found[name]]
            parts.append(f"## {title}\n\n" + "\n".join(bodies))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return {
        ROOT / "docs" / "measurements.md": "\n".join(parts),
        readme: before + MARKS[0] + "\n" + summary(found) + "\n" + MARKS[1] + after,
    }


HEAD = """# Measurements

Written by `bench/compare`; do not edit. Server and client share one machine, over loopback, and the
servers take turns within one run: compare the columns of a row, not figures of different runs.
"""


def origin(name, result):
    """Returns the sentence that names the date, the commit and the machine of a result."""
    where = result["machine"]
    return (
        f"*Measured {where['date']} at {where['commit']} on {where['machine']}, against memcached "
        f"{result['memcached']}. To repeat: `bench/compare {name}`.*\n"
    )


def table(heads, rows):
    """Returns a table in Markdown."""
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def request_name(row):
    kind = "one at a time" if row["pipeline"] == 1 else f"{row['pipeline']} pipelined"
    return f"{row['operation']}, {kind}"


def spread(values):
    """Formats the lowest and the highest value."""
    return f"{min(values):.2f} to {max(values):.2f}"


def wire(found):
    lines = []
    for row in found["requests"]:
        theirs, ours = zip(*row["pairs_us"])
        ratios = ratios_of(row["pairs_us"])
        lines.append([
            row["name"], spread(theirs), spread(ours), f"**{statistics.median(ratios):.2f}**", spread(ratios),
        ])
    rate = found["rate"]
    times = []
    for name, figure in RATE_FIGURES.items():
        pairs = [[run[figure] for run in pair] for pair in rate["pairs"]]
        theirs, ours = (statistics.median(values) for values in zip(*pairs))
        low, median, high = statistics.quantiles(ratios_of(pairs), n=4)
        times.append([name, f"{theirs:.1f}", f"{ours:.1f}", f"**{median:.2f}**", f"{low:.2f} to {high:.2f}"])
    return (
        "User and system time of the server process per request, on one core; the load generator has the other cores.\n"
        "Each server has the number of worker threads that it starts by default on this core: "
        f"{found['workers']['memcached']} in memcached, {found['workers']['slabwise']} in\nslabwise. `bench/io --threads N` "
        "compares the servers with the same number. Values of 100 B unless the row names a size.\n"
        f"The runs of a pair follow each other; the ratio is the median of {len(found['requests'][0]['pairs_us'])} pairs.\n\n"
        + table(["request", "memcached, us", "slabwise, us", "ratio", "ratios"], lines)
        + f"\nAt {rate['requests_per_second']:,} requests/s, half of memcached's highest rate: one request at a time on each of "
        f"16 connections,\nten gets for each set. Medians of {len(rate['pairs'])} pairs.\n\n"
        + table(["", "memcached, us", "slabwise, us", "ratio", "middle half of the ratios"], times)
    )


# The figures of a run at a fixed rate, and their names in the report.
RATE_FIGURES = {
    "round-trip time, median": "p50_us",
    "99th percentile": "p99_us",
    "99.9th percentile": "p999_us",
    "processor time per request": "cpu_us",
}


def ratios_of(pairs):
    """Returns slabwise's value divided by memcached's, for each pair."""
    return [ours / theirs for theirs, ours in pairs]


def throughput(rows):
    lines = []
    for row in rows:
        middle = {
            kind: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            for kind, runs in row["runs"].items()
        }
        line = [request_name(row), row["threads"]]
        for found in middle.values():
            line += [
                f"{found['requests'] / found['seconds']:,.0f}",
                f"{found['p50_us']:.0f} / {found['p99_us']:.0f} / {found['p999_us']:.0f}",
                f"{found['server_cpus']:.2f}",
            ]
        lines.append(line)
    heads = ["request", "`-t`"]
    for kind in ("memcached", "slabwise"):
        heads += [f"{kind}, requests/s", "50 / 99 / 99.9 %, us", "CPUs used"]
    return (
        "Each thread of the server has a core of its own, the load generator has the other cores. 16 connections,\n"
        "each of which sends its next batch when it has all replies. The times are those from the write of a\n"
        "batch to its last reply. Where the server uses less than its cores, the client is the limit. Medians of the runs.\n\n"
        + table(heads, lines)
    )


def profile(pairs):
    lines = []
    for name, unit, value in (
        ("processor time a request", "us", lambda run: run["cpu_us"]),
        ("time of a run", "s", lambda run: run["seconds"]),
    ):
        off, on = ([value(pair[state]) for pair in pairs] for state in ("off", "on"))
        ratios = sorted(with_it / without for without, with_it in zip(off, on))
        lines.append([
            name,
            f"{statistics.median(off):.3f} {unit}",
            f"{statistics.median(on):.3f} {unit}",
            f"**{statistics.median(ratios):.3f}**",
            f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}",
        ])
    return (
        f"Gets of 100 B values, 32 pipelined, in {len(pairs)} pairs of runs with `profile=off` and `profile=on`.\n\n"
        + table(["", "off", "on", "ratio, median of pairs", "middle half"], lines)
    )


def memory(rows):
    lines = [
        [row["kind"], f"{row['grown_bytes'] / 1e6:.1f} MB", f"{row['per_item_bytes']:.1f} B",
         f"{row['per_item_bytes'] - 115:.1f} B"]
        for row in rows
    ]
    return (
        "Growth of resident memory by 1 M items with keys of 15 B and values of 100 B.\n\n"
        + table(["server", "growth", "per item", "beside key and value"], lines)
    )


def moves(rows):
    lines = [
        [row["kind"], f"{row['pages_per_second']:.0f}", f"{row['page_size_bytes'] / MIB:.2f} MiB",
         row["chunk_size_bytes"], row["moves"], row["items_lost"]]
        for row in rows
    ]
    heads = ["server", "pages/s", "page", "chunk, B", "pages moved", "items dropped"]
    return (
        "`slabs reassign`, one after the other, on an idle server whose class is full.\n\n"
        + table(heads, lines)
    )


def latency(found):
    lines = []
    for name, pairs in (("pages of 64 KiB move", found["pages"]), ("the class table changes", found["classes"])):
        windows = pairs["windows"]
        middle = lambda name: statistics.median(row[name] for row in windows)
        lines.append([
            name, f"{middle('still_p99_us'):.0f} us", f"{middle('moving_p99_us'):.0f} us",
            f"**{pairs['ratio']:.2f}**", f"{middle('pages_per_second'):.0f}",
            f"{middle('items_carried_per_second'):,.0f}",
        ])
    return (
        f"`slabwise replay` of ETC as fast as it goes, in {len(windows)} pairs of windows: in one of each "
        f"pair, pages move, or the class table changes to one that shares only its largest size with the one before.\n\n"
        + table(["99th percentile while", "still", "meanwhile", "ratio, median of pairs", "pages/s",
                 "items carried/s"], lines)
    )


def misses(rows):
    lines = []
    for row in rows:
        line = [row["workload"], f"{row['memory_mib']} MiB", f"{row['requests']:,}"]
        for kind in KINDS:
            result = row["servers"][kind]
            resident = result["resident_bytes"] / MIB
            line += [f"{result['miss_ratio']:.4f}", f"{resident:.0f} MiB"]
        lines.append(line)
    heads = ["workload", "`-m`", "requests"]
    for kind in KINDS:
        heads += [kind, "resident"]
    return (
        "Look-aside replay over the wire (get; on a miss set) by `slabwise replay`; lower is "
        "better.\nBeside each ratio, the memory resident in the server at the end.\n\n"
        + table(heads, lines)
    )


def classes(rows):
    lines = []
    for geometric, learned in zip(rows[::2], rows[1::2]):
        lines.append([
            learned["workload"], f"{learned['memory_mib']} MiB", f"`{learned['policy']}`", f"{learned['requests']:,}",
            f"{geometric['items']:,}", f"{learned['items']:,}",
            f"**{learned['items'] / geometric['items']:.3f}**",
            f"{learned['item_bytes'] / geometric['item_bytes']:.3f}",
            f"{geometric['miss_ratio']:.4f}", f"{learned['miss_ratio']:.4f}", learned["changes"],
        ])
    heads = ["workload", "`-m`", "`page_policy`", "requests", "items, geometric", "items, learned", "ratio", "ratio of their bytes",
             "misses, geometric", "misses, learned", "changes of the table"]
    return (
        "slabwise with `-o classes=geometric` (memcached's chunk sizes, in steps of 25 %) and with its default.\n"
        "Items differ in size: how many there are goes with the bytes that they fill, and with the mix of sizes\n"
        "that a page policy keeps.\n\n"
        + table(heads, lines)
    )


SECTIONS = {
    "wire": ("Processor time and latency per request", wire),
    "throughput": ("Throughput and latency", throughput),
    "profile": ("What profiling costs", profile),
    "memory": ("Memory per item", memory),
    "moves": ("Page moves", moves),
    "latency": ("Latency while pages move", latency),
    "misses": ("Miss ratios", misses),
    "classes": ("Learned chunk sizes", classes),
}


MARKS = ("<!-- figures: written by bench/compare -->\n", "<!-- end of figures -->\n")


# The sections whose measurements are in the table of README.md.
SUMMARIZED = ("misses", "memory", "wire")


def summary(found):
    """Returns the table of README.md: a row for each measured quantity, compared with the newest measured version of
    memcached. Before it is a sentence with the gain."""
    version = max((result["memcached"] for name in SUMMARIZED for result in found.get(name, [])), key=version_key)
    rows = [[name, *figures] for name, figures in figures_of(found, version)]
    return headline(found, version) + table(["", f"memcached {version}", "slabwise", "ratio"], rows)


def figures_of(found, version):
    """Yields the name of each measured quantity, with a list: memcached's value, slabwise's value, and
    slabwise's divided by memcached's."""
    for row in rows_of("misses", found, version) or ():
        yield f"miss ratio, {row['workload']}, {row['memory_mib']} MiB", compared(miss_ratios(row), "{:.4f}")
    if of_memory := rows_of("memory", found, version):
        items = {row["kind"]: row["per_item_bytes"] for row in of_memory}
        yield "memory per item of 115 B", compared(items, "{:.0f} B")
    if of_wire := rows_of("wire", found, version):
        for row in of_wire["requests"]:
            theirs, ours = (statistics.median(values) for values in zip(*row["pairs_us"]))
            ratio = statistics.median(ratios_of(row["pairs_us"]))
            yield f"CPU per {row['name']}", [f"{theirs:.1f} us", f"{ours:.1f} us", f"{ratio:.2f}"]


def rows_of(section, found, version):
    """Returns the rows of a section for a version of memcached; None if it was not measured."""
    return next((it["rows"] for it in found.get(section, []) if it["memcached"] == version), None)


def miss_ratios(row):
    return {kind: result["miss_ratio"] for kind, result in row["servers"].items()}


def percent(share):
    return f"{100 * share:.0f}"


def headline(found, version):
    """Returns a sentence with the gain over this version of memcached; an empty text if its miss ratios are missing."""
    rows = rows_of("misses", found, version)
    if not rows:
        return ""
    fewer = sorted(1 - ratios["slabwise"] / ratios["memcached"] for ratios in map(miss_ratios, rows))
    return (
        f"In these {len(fewer)} replays, slabwise has **{percent(fewer[0])} to {percent(fewer[-1])} % fewer misses** than "
        f"memcached {version}\nwith the same memory limit, {percent(statistics.median(fewer))} % in the median.\n\n"
    )


def compared(values, form):
    theirs, ours = values["memcached"], values["slabwise"]
    return [form.format(theirs), form.format(ours), f"{ours / theirs:.2f}"]


def main():
    found = results()
    written = texts(found)
    if "--check" not in sys.argv[1:]:
        for path, text in written.items():
            path.write_text(text)
        return
    wrong = [path for path, text in written.items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        print(f"{path} differs from docs/measurements.json; to write it: python3 bench/report.py", file=sys.stderr)
    missing = [name for name in SUMMARIZED if name not in found]
    for name in missing:
        print(f"docs/measurements.json has no results of a section of README.md's table; to measure them: bench/compare {name}", file=sys.stderr)
    sys.exit(1 if wrong or missing else 0)


if __name__ == "__main__":
    main()
