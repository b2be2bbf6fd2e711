#!/usr/bin/env python3
"""Compares the time to render a chat template with that of Jinja2, set up as Hugging Face transformers does.

    bench/vs_jinja2.py [BUILD_DIR] [TEMPLATE.jinja]

Needs python3-jinja2 and the benchmarks (cmake --preset release -DTESSERA_BUILD_BENCH=ON). The two programs run in turns,
five times; the medians of their CPU times are printed. The conversation has 100 messages of 200 bytes.
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import jinja2.ext
import jinja2.sandbox

MESSAGES = [{"role": "user" if i % 2 == 0 else "assistant", "content": "A sentence of 20 b. " * 10} for i in range(100)]


def jinja2_us(source):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda x, **kwargs: json.dumps(x, ensure_ascii=False, **kwargs)
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    template = environment.from_string(source)
    template.render(messages=MESSAGES, add_generation_prompt=True, bos_token="<s>")
    start = time.process_time()
    for _ in range(500):
        template.render(messages=MESSAGES, add_generation_prompt=True, bos_token="<s>")
    return (time.process_time() - start) / 500 * 1e6


def tessera_us(program, environment):
    result = subprocess.run([program, "--benchmark_format=json", "--benchmark_min_time=0.2"], env=environment,
                            capture_output=True, text=True, check=True)
    return {row["name"]: row["cpu_time"] for row in json.loads(result.stdout)["benchmarks"]}


def main(arguments):
    build = arguments[0] if arguments else "build/release"
    program, environment = os.path.join(build, "bench", "template_bench"), dict(os.environ)
    source = subprocess.run([os.path.join(build, "bin", "tessera"), "template", "--chat-template", "llama3", "--source"],
                            capture_output=True, text=True, check=True).stdout
    if len(arguments) > 1:
        environment["TEMPLATE"] = arguments[1]
        with open(arguments[1], encoding="utf-8") as file:
            source = file.read()
    theirs, ours = [], []
    for _ in range(5):
        theirs.append(jinja2_us(source))
        ours.append(tessera_us(program, environment))
    median = {name: statistics.median(row[name] for row in ours) for name in ours[0]}
    print(f"100 messages, CPU time, median of 5: Jinja2 {statistics.median(theirs):.0f} us, tessera {median['render']:.0f} us, "
          f"with adaptation and marks {median['render_chat']:.0f} us; parse {median['parse']:.0f} us, "
          f"parse and probe {median['probe']:.0f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
