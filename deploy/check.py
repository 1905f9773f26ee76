#!/usr/bin/env python3
"""Checks that every expression of Grafana boards and of Prometheus rule files returns data.

    deploy/check.py http://127.0.0.1:9090 deploy/grafana/slabwise.json deploy/prometheus/alerts.yaml

The first argument is the address of a Prometheus that scrapes at least one slabwise. The others are boards (JSON) and
rule files (YAML). The program runs each expression as an instant query. It prints the expressions that return no data,
and exits with 1 if there are any. An expression whose values are all NaN returns no data either: a rate in it is zero.

In the expressions of a board, each variable is replaced by `.*`, and `$__rate_interval` by 1m. An alert that does not
fire returns no data. So in a rule file, each comparison is replaced by an addition: the result has data if both
operands have data, and if their labels match.

Many expressions need traffic, and some need a full cache and page moves. To make traffic, start a server with little
memory and a Prometheus that scrapes it every second. Then run the server for two minutes with more keys than it has
memory for:

    slabwise -m 64 -p 31211 -o http=127.0.0.1:9150,page_policy=marginal       # as root add -u nobody
    prometheus --config.file=deploy/prometheus/prometheus.yml                 # set scrape_interval to 1s
    slabwise replay --server 127.0.0.1:31211 --workload etc --requests 600000   # fills the cache
    slabwise replay --server 127.0.0.1:31211 --workload etc --rate 5000 --requests 600000

Rates of refused stores and clients return 0 without a fault, which is data. With the default page policy, which
predicts no miss ratio, the prediction of the last plan has no data; `marginal` predicts one.
"""

import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT_SECONDS = 30
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
SET_OPERATORS = ("and", "or", "unless")
TOKEN = re.compile(
    r"""\s+|\#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|[A-Za-z_:][A-Za-z0-9_:.]*|=~|!~|==|!=|<=|>=|.""",
    re.DOTALL,
)
OPENING, CLOSING = "([{", ")]}"


def board_expressions(node):
    """Yields the title and the expression of each query of a board, and of each variable with a query."""
    if isinstance(node, list):
        for child in node:
            yield from board_expressions(child)
    if not isinstance(node, dict):
        return
    title = node.get("title") or node.get("name") or ""
    for query in node.get("targets") or []:
        if query.get("expr"):
            yield title, without_variables(query["expr"])
    query = node.get("query")
    query = query.get("query") if isinstance(query, dict) else query
    values = re.fullmatch(r"label_values\((.*),\s*\w+\)", query or "", re.DOTALL)
    if values:
        yield f"variable {title}", without_variables(values[1])
    for child in node.values():
        yield from board_expressions(child)


def without_variables(expression):
    expression = re.sub(r"\$\{?__(rate_interval|interval|range)\}?", "1m", expression)
    return re.sub(r"\$\{\w+(:\w+)?\}|\$\w+|\[\[\w+\]\]", ".*", expression)


def rule_expressions(text):
    """Yields the name and the expression of each rule. Reads the part of YAML that rule files use."""
    lines = text.split("\n")
    name = ""
    for number, line in enumerate(lines):
        field = re.match(r"^(\s*(?:- +)?)(alert|record|expr):\s*(.*?)\s*$", line)
        if not field:
            continue
        prefix, key, value = field.groups()
        if key != "expr":
            name = unquoted(value)
            continue
        block = []
        for later in lines[number + 1 :]:
            if later.strip() and len(later) - len(later.lstrip()) <= len(prefix):
                break
            block.append(later)
        if re.fullmatch(r"[|>][+-]?\d*", value):
            value = ""
        # A plain or quoted value may continue on lines with a deeper indentation.
        yield name, without_comparisons(unquoted("\n".join([value, *block]).strip()))


def unquoted(value):
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return json.loads(value)
    return value


def without_comparisons(expression):
    """Replaces each comparison by an addition, and `unless` by `or`."""
    tokens = [token for token in TOKEN.findall(expression) if not token.startswith("#")]
    text, rest = relaxed(tokens)
    if rest:
        raise ValueError(f"unexpected {rest[0]!r} in: {expression}")
    return text.strip()


def relaxed(tokens):
    """Rewrites tokens up to the end of the enclosing brackets. Returns the text and the tokens from this end on."""
    text, closers = "", ""
    while tokens and tokens[0] not in tuple(CLOSING):
        token, tokens = tokens[0], tokens[1:]
        if token == "{":
            # Label matchers also have the operators = and !=, and are kept.
            end = tokens.index("}")
            text += token + "".join(tokens[: end + 1])
            tokens = tokens[end + 1 :]
        elif token in tuple(OPENING):
            inner, tokens = relaxed(tokens)
            text += token + inner + "".join(tokens[:1])
            tokens = tokens[1:]
        elif token in COMPARISONS:
            matching, tokens = modifiers(tokens)
            text += closers + "+" + matching + " ("
            closers = ")"
        elif token in SET_OPERATORS or token == ",":
            text += closers + (" or" if token == "unless" else " " + token if token != "," else ",")
            closers = ""
        else:
            text += token
    return text + closers, tokens


def modifiers(tokens):
    """Takes `bool`, `on (...)`, `ignoring (...)` and `group_left (...)` from the start of the tokens."""
    text = ""
    while True:
        while tokens and tokens[0].isspace():
            tokens = tokens[1:]
        if not tokens or tokens[0] not in ("bool", "on", "ignoring", "group_left", "group_right"):
            return text, tokens
        word, tokens = tokens[0], tokens[1:]
        while tokens and tokens[0].isspace():
            tokens = tokens[1:]
        labels = "()"
        if word != "bool" and tokens and tokens[0] == "(":
            end = tokens.index(")")
            labels, tokens = "".join(tokens[: end + 1]), tokens[end + 1 :]
        if word != "bool":
            text += f" {word} {labels}"


def problem(prometheus, expression):
    """Runs an instant query. Returns the reason why there is no data, or None if there is."""
    query = urllib.parse.urlencode({"query": expression})
    address = f"{prometheus.rstrip('/')}/api/v1/query?{query}"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as reply:
            result = json.load(reply)["data"]
    except urllib.error.HTTPError as error:
        return json.load(error).get("error", str(error))
    if result["resultType"] == "scalar":
        values = [result["result"][1]]
    else:
        values = [series["value"][1] for series in result["result"]]
    if not values:
        return "no data"
    if all(math.isnan(float(value)) for value in values):
        return "all values are NaN"
    return None


def main(arguments):
    if len(arguments) < 2:
        sys.exit("usage: deploy/check.py PROMETHEUS FILE...\n\n" + __doc__)
    prometheus, *paths = arguments
    failures = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        found = list(board_expressions(json.loads(text)) if text.lstrip().startswith("{") else rule_expressions(text))
        if not found:
            print(f"{path}: no expressions: give a Grafana board or a rule file of Prometheus")
            failures += 1
        passed = 0
        for name, expression in found:
            try:
                reason = problem(prometheus, expression)
            except urllib.error.URLError as error:
                sys.exit(f"{prometheus}: {error.reason}: give the address of a running Prometheus")
            if reason is None:
                passed += 1
                continue
            failures += 1
            print(f"{path}: {name}: {reason}:\n    " + " ".join(expression.split()))
        print(f"{path}: {passed} of {len(found)} expressions return data")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
