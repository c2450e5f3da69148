#!/usr/bin/env python3
"""Generates random graphs, runs them with `graph-fuzz`, and shrinks those that fail.

    python3 fuzz.py --cases 2000 --seed 1
    python3 fuzz.py --case 1234                      # one case of that seed
    python3 fuzz.py --cases 300 --write corpus.jsonl --sound
"""

import argparse
import json
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from make import patterns, pretty, random_graph, shrink
from make.values import Reject

HERE = Path(__file__).resolve().parent
BINARY = HERE.parent.parent / "target" / "release" / "graph-fuzz"
# Seconds to wait for an answer: longer than the binary itself waits for a case.
ANSWER_SECONDS_MAX = 90
# The greatest length of a written case, in characters.
CASE_CHARACTERS_MAX = 12_000


class Runner:
    """The binary, which reads cases and writes answers. It is started again after it exits."""

    def __init__(self, binary, modes=None):
        self.command = [str(binary)] + (["--modes", modes] if modes else [])
        self.process = None

    def run(self, line):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            self.process.kill()
            code = self.process.wait()
            what = "the process hangs" if code == 3 or not ready else f"the process exited with code {code}"
            return {"findings": [{"mode": "process", "what": what}]}
        return json.loads(answer)


def kind(finding):
    """Returns the kind of a finding, which shrinking must preserve."""
    what = finding["what"]
    for word in ("a panic", "create:", "compile:", "submit:", "refused", "prepare:", "invalid program", "does not depend on",
                 "has values although", "in the next clean run", "no node stores there", "wrong stored value", "hangs", "races"):
        if word in what:
            tail = re.sub(r"[0-9]+", "#", what[what.index(word):])[:60] if word == "a panic" else ""
            return finding["mode"].split("-")[0], word + tail
    value = re.search(r"expected (NaN|-?inf)", what)
    return finding["mode"].split("-")[0], "wrong" + (value.group(0) if value else "") + ("device" if "`" in what else "")


def make(seed, share):
    """Returns the graph of a seed."""
    rng = np.random.default_rng(seed)
    if rng.random() < share:
        names = patterns.all_patterns()
        return patterns.pattern_graph(rng, names[int(rng.integers(len(names)))])
    return random_graph.random_graph(rng)


def tidy(graph):
    """Removes nodes that the roots do not need."""
    try:
        return shrink.rebuilt(graph, tidy=True)
    except Reject:
        return graph


def line_of(graph, name, modes=None):
    case = graph.to_case(name)
    if modes:
        case["modes"] = modes
    return json.dumps(case, separators=(",", ":"))


def shrink_finding(runner, graph, finding):
    """Returns the smallest graph with the same kind of finding, in its mode, and the finding."""
    modes = [finding["mode"]] if finding["mode"] != "process" else None
    goal = kind(finding)

    def fails(other):
        answer = runner.run(line_of(other, "small", modes))
        return any(kind(found) == goal for found in answer.get("findings", []))

    graph = shrink.shrink(graph, fails)
    answer = runner.run(line_of(graph, "small", modes))
    what = [found["what"] for found in answer["findings"] if kind(found) == goal]
    return graph, (what or [finding["what"]])[0]


def report(name, finding, graph, what):
    print(f"\n=== {name} [{finding['mode']}] {what}")
    print(pretty.rust(graph))


def main():
    arguments = parse()
    runner = Runner(arguments.binary, arguments.modes)
    out = open(arguments.write, "w") if arguments.write else None
    begin, wrong, seen, looks, written = time.time(), 0, {}, {}, 0
    seeds = [arguments.case] if arguments.case is not None else range(arguments.seed, arguments.seed + arguments.cases)
    for done, seed in enumerate(seeds, 1):
        graph = tidy(make(seed, arguments.patterns))
        name = f"seed {seed}"
        answer = runner.run(line_of(graph, name)) if not out or arguments.sound else {"findings": []}
        if answer.get("error"):
            print(f"{name}: {answer['error']}")
            wrong += 1
        findings = answer.get("findings", [])
        wrong += bool(findings)
        if out and not findings and len(line_of(graph, name)) < CASE_CHARACTERS_MAX:
            out.write(line_of(graph, name) + "\n")
            written += 1
        first = {}
        for finding in findings:
            first.setdefault(kind(finding)[1], finding)
        for finding in first.values():
            of_kind = (kind(finding)[0].replace("sim", "cpu"), kind(finding)[1])
            seen[of_kind] = seen.get(of_kind, 0) + 1
            if out or seen[of_kind] > arguments.each:
                continue
            shrunk, what = (graph, finding["what"]) if arguments.whole else shrink_finding(runner, graph, finding)
            # Graphs that differ only in their numbers are reported once.
            look = (of_kind, tuple(node.op for node in shrunk.nodes if node.op != "input"))
            looks[look] = looks.get(look, 0) + 1
            if looks[look] == 1:
                report(name, finding, shrunk, what)
                save(arguments.findings, seed, finding, shrunk, what)
        if sys.stderr.isatty() or done % 500 == 0:
            print(f"\r{done} cases, {wrong} wrong, {done / (time.time() - begin):.0f}/s ", end="", file=sys.stderr, flush=True)
    print(f"\n{len(seeds)} cases in {time.time() - begin:.0f} s, {wrong} wrong" + (f", {written} written" if out else ""))
    for of_kind, count in sorted(seen.items(), key=lambda item: -item[1]):
        print(f"{count:6} {': '.join(of_kind)}")
        for (kind_of, ops), times in looks.items():
            if kind_of == of_kind:
                print(f"{times:13} with {' '.join(ops)}")
    return 1 if wrong and not out else 0


def save(folder, seed, finding, graph, what):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    case = graph.to_case(f"seed {seed}: {finding['mode']}: {what}"[:300])
    case["modes"] = [finding["mode"]] if finding["mode"] != "process" else []
    word = re.sub(r"[^a-z]+", "-", " ".join(kind(finding)))[:50].strip("-")
    (folder / f"{seed}-{word}.json").write_text(json.dumps(case))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="the number of cases")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first case; the others have the following seeds")
    parser.add_argument("--case", type=int, help="run only the case of this seed")
    parser.add_argument("--modes", help="run only these modes, separated by commas: cpu,sim,bound,.. (see README.md)")
    parser.add_argument("--patterns", type=float, default=0.35, help="the share of patterns among the graphs")
    parser.add_argument("--each", type=int, default=20, help="the number of findings of a kind that are shrunk")
    parser.add_argument("--whole", action="store_true", help="report failing graphs without shrinking")
    parser.add_argument("--write", help="write the cases to this file")
    parser.add_argument("--sound", action="store_true", help="with --write: run each case, and write only those that pass")
    parser.add_argument("--findings", default=str(HERE / "findings"), help="the folder for shrunk cases")
    parser.add_argument("--binary", default=str(BINARY), help="the binary that runs cases")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
