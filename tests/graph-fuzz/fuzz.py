#!/usr/bin/env python3
"""Makes random graphs, runs them by `graph-fuzz`, and makes those small that fail.

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
# Longer than the binary itself waits for a case.
SILENCE = 90
# Of a case that is written, in characters.
LONGEST = 12_000


class Runner:
    """The binary, with cases going in and answers coming out; another one where it ends."""

    def __init__(self, binary, modes=None):
        self.command = [str(binary)] + (["--modes", modes] if modes else [])
        self.process = None

    def run(self, line):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            self.process.kill()
            code = self.process.wait()
            what = "it hangs" if code == 3 or not ready else f"the process ended with {code}"
            return {"findings": [{"mode": "process", "what": what}]}
        return json.loads(answer)


def kind(finding):
    """What stays the same of a finding when its case is made small."""
    what = finding["what"]
    for word in ("a panic", "create:", "compile:", "submit:", "refused", "prepare:", "a program is wrong", "does not depend on it",
                 "as if it were sound", "and then a sound run", "nothing stores there", "was not stored to", "hangs", "races"):
        if word in what:
            tail = re.sub(r"[0-9]+", "#", what[what.index(word):])[:60] if word == "a panic" else ""
            return finding["mode"].split("-")[0], word + tail
    value = re.search(r"not (NaN|-?inf)", what)
    return finding["mode"].split("-")[0], "wrong" + (value.group(0) if value else "") + ("device" if "`" in what else "")


def make(seed, share):
    """The graph of a seed."""
    rng = np.random.default_rng(seed)
    if rng.random() < share:
        names = patterns.all_patterns()
        return patterns.pattern_graph(rng, names[int(rng.integers(len(names)))])
    return random_graph.random_graph(rng)


def tidy(graph):
    """Without what the roots do not need."""
    try:
        return shrink.rebuilt(graph, tidy=True)
    except Reject:
        return graph


def line_of(graph, name, modes=None):
    case = graph.to_case(name)
    if modes:
        case["modes"] = modes
    return json.dumps(case, separators=(",", ":"))


def small(runner, graph, finding):
    """The smallest graph with the same kind of finding, in its mode alone."""
    modes = [finding["mode"]] if finding["mode"] != "process" else None
    goal = kind(finding)

    def fails(other):
        answer = runner.run(line_of(other, "small", modes))
        return any(kind(found) == goal for found in answer.get("findings", []))

    graph = shrink.shrink(graph, fails)
    answer = runner.run(line_of(graph, "small", modes))
    what = [found["what"] for found in answer["findings"] if kind(found) == goal]
    return graph, (what or [finding["what"]])[0]


def tell(name, finding, graph, what):
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
        if out and not findings and len(line_of(graph, name)) < LONGEST:
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
            shrunk, what = (graph, finding["what"]) if arguments.whole else small(runner, graph, finding)
            # What is small and the same but for its numbers is told once.
            look = (of_kind, tuple(node.op for node in shrunk.nodes if node.op != "input"))
            looks[look] = looks.get(look, 0) + 1
            if looks[look] == 1:
                tell(name, finding, shrunk, what)
                keep(arguments.findings, seed, finding, shrunk, what)
        if sys.stderr.isatty() or done % 500 == 0:
            print(f"\r{done} cases, {wrong} wrong, {done / (time.time() - begin):.0f}/s ", end="", file=sys.stderr, flush=True)
    print(f"\n{len(seeds)} cases in {time.time() - begin:.0f} s, {wrong} wrong" + (f", {written} written" if out else ""))
    for of_kind, count in sorted(seen.items(), key=lambda item: -item[1]):
        print(f"{count:6} {': '.join(of_kind)}")
        for (kind_of, ops), times in looks.items():
            if kind_of == of_kind:
                print(f"{times:13} of {' '.join(ops)}")
    return 1 if wrong and not out else 0


def keep(folder, seed, finding, graph, what):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    case = graph.to_case(f"seed {seed}: {finding['mode']}: {what}"[:300])
    case["modes"] = [finding["mode"]] if finding["mode"] != "process" else []
    word = re.sub(r"[^a-z]+", "-", " ".join(kind(finding)))[:50].strip("-")
    (folder / f"{seed}-{word}.json").write_text(json.dumps(case))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others have the following ones")
    parser.add_argument("--case", type=int, help="the case of this seed alone")
    parser.add_argument("--modes", help="these alone, with commas: cpu,sim,bound,.. (README.md has all)")
    parser.add_argument("--patterns", type=float, default=0.35, help="the share of whole patterns among the graphs")
    parser.add_argument("--each", type=int, default=20, help="how many findings of a kind are made small")
    parser.add_argument("--whole", action="store_true", help="print what fails as it is")
    parser.add_argument("--write", help="write the cases to this file")
    parser.add_argument("--sound", action="store_true", help="of those that are written, run each and keep what passes")
    parser.add_argument("--findings", default=str(HERE / "findings"), help="where small cases go")
    parser.add_argument("--binary", default=str(BINARY), help="what runs them")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
