#!/usr/bin/env python3
"""Writes tests/data/templates/snippets.jsonl: snippets of the template language and what Jinja2 makes of them.

    scripts/generate_template_snippets.py > tests/data/templates/snippets.jsonl

Needs python3-jinja2. The environment is the one that Hugging Face transformers sets up for chat templates: a sandbox
with trim_blocks, lstrip_blocks and break/continue, tojson as json.dumps, raise_exception and strftime_now. The first
line has the variables. Each other line has a snippet and its result, or the kind of its error.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

VARIABLES = {
    "text": "Ahoy, Zoë ⚓", "empty": "", "count": 12, "ratio": 0.75, "yes": True, "nothing": None,
    "things": [4, "b", None, 2.5, [False]], "words": ["pear", "Apple", "fig", "apple"],
    "box": {"name": "crate", "sizes": [1, 2, 3], "inner": {"deep": {"er": "found"}}, "items": "hidden", "é": 0},
    "boats": [{"name": "Ida", "length": 9, "sail": True, "home": {"port": "Urk"}},
              {"name": "bo", "length": 7, "home": {"port": "Hoorn"}},
              {"name": "Cas", "length": 9, "sail": False}],
    "quotes": "she's \"in\" \\ port\n\t<&>",
}

SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 - 2 - 1 }} {{ 2 * 3 ** 2 }} {{ -3 ** 2 }} {{ 10 / 4 }} {{ 9 / 3 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ 6 % 3 }} {{ -6 // 3 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 0.0 // 5 }} {{ 1.0 // 0.1 }} {{ 6.0 % 3 }}
{{ 2 ** 0 }} {{ 2 ** 62 }} {{ 3 ** 5 }} {{ (-2) ** 3 }} {{ 2 ** -2 }} {{ 2.0 ** 3 }} {{ 4 ** 0.5 }} {{ 0 ** 0 }}
{{ - count }} {{ + count }} {{ - - count }} {{ -count|abs }} {{ -(count) }} {{ 3 - -2 }} {{ not not count }}
{{ 1 ~ 2 }} {{ 'a' ~ 1 ~ none ~ true }} {{ 1 ~ 2 * 3 }} {{ 'a' + 'b' ~ 1 }}
{{ 1 + 1 ~ 2 * 3 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ false - 1 }} {{ true / 2 }} {{ 5 + ratio }} {{ ratio * 4 }}
{{ 'ab' + 'cd' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'ab' * 0 }}{{ 'ab' * -1 }}| {{ [1, 2] + [3] }} {{ (1, 2) + (3,) }} {{ [0] * 3 }} {{ 2 * (1, 2) }} {{ [1] * 0 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1.5 // 0 }}
{{ 0 ** -1 }}
{{ 'a' - 'b' }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ {} + {} }}
{{ 'a' * 'b' }}
{{ [1] * 1.5 }}
{{ -'a' }}
{{ +none }}
{{ none + 1 }}
{{ missing + 1 }}
{{ 1 - missing }}
{{ -missing }}
{{ 1 < 2 }} {{ 2 < 1 }} {{ 1 <= 1 }} {{ 1 >= 2 }} {{ 2 > 1 }} {{ 1 != 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ 'a' != 'b' }} {{ none == none }} {{ none == false }} {{ '1' == 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 1 }} {{ 3 > 2 > 2 }} {{ 1 == 1 == 1 }} {{ 5 in [5] == [5] }} {{ 1 < 3 < 2 or 'x' }}
{{ 1.5 < 2 }} {{ 2 < 1.5 }} {{ 2 <= 2.0 }} {{ 2.5 > 2 }} {{ -1 < -0.5 }} {{ -0.5 < -1 }} {{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} {{ 1e300 > 5 }} {{ -1e300 < 5 }} {{ 5 < 1e300 }} {{ 5 > -1e300 }}
{{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'ab' < 'abc' }} {{ 'é' > 'z' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ [2] > [1, 9] }} {{ (1, 'a') < (1, 'b') }} {{ [[1], 2] < [[1], 3] }} {{ [] < [0] }}
{{ [1, [2, {'a': 1}]] == [1.0, [2, {'a': true}]] }} {{ [1] == (1,) }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 2} }} {{ {'a': 1} == {'b': 1} }} {{ {'a': 1} == {} }} {{ [1, 2] == [1] }} {{ [1, 2] != [2, 1] }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ [1] < ['a'] }}
{{ {} < {} }}
{{ missing < 1 }}
{{ 'b' in 'abc' }} {{ 'x' in 'abc' }} {{ '' in 'abc' }} {{ 'abc' in 'abc' }} {{ 'abcd' in 'abc' }} {{ 2 in [1, 2] }} {{ 2.0 in (1, 2) }} {{ none in things }} {{ 'name' in box }} {{ 'crate' in box }} {{ [false] in things }} {{ 3 not in [1] }} {{ 'b' not in 'abc' }} {{ 'x' in missing }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ [] in {} }}
{{ yes and count }} {{ empty and count }}| {{ empty or 'other' }} {{ count or 1 }} {{ nothing or 0 or [] }} {{ 1 and 2 and 3 }} {{ 1 and 0 and 3 }} {{ 0 or none }} {{ not empty }} {{ not things }} {{ true and not false }} {{ not false or false }} {{ not (true and false) }}
{{ 1 or 1/0 }} {{ 0 and 1/0 }} {{ true or missing.x }}
{{ 'a' if yes else 'b' }} {{ 'a' if empty else 'b' }} {{ 'a' if empty }}| {{ 1 if 0 else 2 if 0 else 3 }} {{ 1 if 1 else 2 if 0 else 3 }} {{ (1 if 0 else 2) if 1 else 3 }} {{ 'x' ~ ('a' if yes else 'b') ~ 'y' }} {{ 'x' ~ 'a' if yes else 'b' }} {{ [1 if yes else 2, 3 if empty else 4] }} {{ {'k': 1 if yes else 2} }} {{ (1 if yes else 2, 3) }}
{{ 'a' if yes and empty else 'b' if yes or empty else 'c' }} {{ 1 + 2 if 1 < 2 else 3 }} {{ 'a' if not yes else 'b'|upper }}
{{ 1 + 2 is defined }} {{ missing is defined }} {{ missing is not defined }} {{ not missing is defined }} {{ 3 is divisibleby 3 }} {{ 3 is not divisibleby 2 }} {{ 4 is divisibleby(2) and 5 is odd }} {{ 1 is in [1, 2] }} {{ 'a' is in('abc') }} {{ 2 is eq 2 }}
{{ 2 is == 2 }}
{{ 'a' 'b' "c" }} {{ 'it\'s' }} {{ "a\"b" }} {{ 'tab\there' }} {{ 'new\nline' }} {{ '\x41\u00e9\U0001F600\101\0601' }} {{ '\q\w' }} {{ 'a\\b' }} {{ '\a\b\f\v\r'|length }}
{{ '\x4' }}
{{ '\u12' }}
{{ 1_000 }} {{ 0xFF }} {{ 0XfF }} {{ 0o17 }} {{ 0b101 }} {{ 1.5 }} {{ 1e3 }} {{ 1E3 }} {{ 1.5e-3 }} {{ 1_0.2_5 }} {{ 2e+2 }} {{ 0 }} {{ 00 }} {{ 0.5 }} {{ 0x_f }}
{{ 0.1 }} {{ 100.0 }} {{ 1e15 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e-7 }} {{ 1.25e-5 }} {{ 1e100 }} {{ 1.5e300 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 2.5e-8 }} {{ 1e22 }} {{ -0.0 }} {{ 1234.5 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 1e308 * 10 - 1e308 * 10 }}
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }} {{ missing }}| {{ things }} {{ box }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ (1, (2, [3])) }} {{ {1: 'a', none: 2, true: 3, 1.5: 4, (1, 'x'): 5} }}
{{ ['a', "it's", 'q"', 'both\'"', '\n\t\r\\', '\x00\x1f\x7f\x80\xa0', 'é', '\u200b\ufeff', '⚓', '\U000e0001'] }}
{{ text[0] }} {{ text[-1] }} {{ text[99] }}| {{ text[8] }} {{ things[0] }} {{ things[-1] }} {{ things[5] }}| {{ things[-6] }}| {{ things[true] }} {{ (1, 2)[1] }} {{ box['name'] }} {{ box.name }} {{ box['nope'] }}| {{ box.nope }}| {{ box.inner.deep.er }} {{ box['inner']['deep']['er'] }} {{ things.0 }} {{ box.sizes.1 }} {{ things['x'] }}| {{ count.x }}| {{ text.nope }}|
{{ box['items'] }} {{ box.items is string }} {{ box.keys()|list }} {{ box.values()|list|length }} {{ box.get('name') }} {{ box.get('nope') }} {{ box.get('nope', 5) }} {{ box.items()|list|first }} {{ box.copy() == box }}
{{ text[1:4] }} {{ text[:4] }} {{ text[6:] }} {{ text[-3:] }} {{ text[:-2] }} {{ text[::2] }} {{ text[::-1] }} {{ text[4:1] }}| {{ text[1:9:3] }} {{ text[8:2:-2] }} {{ text[:] }} {{ text[50:] }}| {{ text[-50:3] }} {{ text[none:2] }}
{{ things[1:3] }} {{ things[::-1] }} {{ things[:-3] }} {{ things[3:1:-1] }} {{ things[::2] }} {{ (1, 2, 3)[1:] }} {{ [1, 2, 3][-2:] }} {{ [1, 2, 3][10:] }} {{ [1, 2, 3][:0] }} {{ [1, 2, 3][5::-1] }} {{ [1, 2, 3][-1:-3:-1] }} {{ [1,2,3][count - 11:] }}
{{ text[::0] }}
{{ text['a':] }}
{{ count[1:] }}
{{ missing[0] }}
{{ missing.x }}
{{ missing[1:] }}
{{ box.nope.x }}
{{ missing() }}
{{ count() }}
{{ text() }}
{{ [1, 2,] }} {{ (1, 2,) }} {{ {'a': 1,} }} {{ [[], [[]]] }} {{ {'a': {'b': {}}} }} {{ {'a': 1, 'a': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ {[]: 1} }}
{{ {{}: 1} }}
{{ 1, 2 }} {{ 1, }} {{ 1, 'a', [2] }} {{ (1) }} {{ ((1, 2)) }}
{% if yes %}A{% endif %}{% if empty %}B{% else %}C{% endif %}{% if empty %}D{% elif count %}E{% else %}F{% endif %}{% if empty %}G{% elif nothing %}H{% else %}I{% endif %}{% if yes %}J{% elif yes %}K{% endif %}{% if yes %}{% if empty %}L{% else %}M{% endif %}{% endif %}
{% for x in [1, 2, 3] %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}{% for x in [] %}x{% else %}none{% endfor %}{% for x in [1] %}y{% else %}none{% endfor %}
{% for x in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'aé⚓' %}<{{ c }}>{% endfor %}{% for x in missing %}x{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in [1, 2, 3, 4, 5] if x is odd %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [2] if x is odd %}x{% else %}none{% endfor %}{% for a, b in [(1, 2), (3, 3)] if a == b %}{{ a }}{% endfor %}{% for x in [1, 2] if loop is undefined %}{{ x }}{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}{% for i in [1, 2] %}{% for j in [1, 2, 3] %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for i in [1, 2, 3] %}{% set c %}{{ i }}{% if i == 2 %}{% continue %}{% endif %}!{% endset %}{{ c }}{% endfor %}|
{% for i in [1, 2] %}{% for j in [3] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{{ loop.depth }}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3, 'c': [{'v': 4, 'c': []}]}]}] recursive %}{{ n.v }}({{ loop.depth }}{{ loop(n.c) }}){% else %}.{% endfor %}
{% for x in [1, 1, 2, 2, 3] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }} {% endfor %}{% for x in [1, 1] %}{{ loop.changed(1, x) }}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% set x = 1 %}{{ x }}{% set x, y = 2, 3 %}{{ x }}{{ y }}{% set (x, y) = [4, 5] %}{{ x }}{{ y }}{% set x = 1, %}{{ x }}{% set z = x if yes else 2 %}{{ z }}
{% set x %}a{{ count }}b{% endset %}[{{ x }}]{% set y | upper | replace('A', '*') %}a{{ x }}{% endset %}[{{ y }}]
{% set x = 0 %}{% for i in [1, 2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}{% with %}{% set x = 5 %}{{ x }}{% endwith %}{{ x }}{% with x = 6, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns['a'] }}{{ ns.d is defined }}{{ ns }}{{ namespace({'q': 1}).q }}{{ namespace([('z', 2)], y=3).z }}
{% set x = {} %}{% set x.a = 1 %}
{% set x.a = 1 %}
{% set a, b = 1 %}
{% macro f(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(c=1, a=2) }}{{ f() }}{{ f(*[7, 8]) }}{{ f(**{'b': 5}) }}{{ f(1, *[2], c=3) }}
{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, x=4) }}{{ f() }}{% macro g(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ g(1) }}{% macro h() %}{{ h is defined }}{{ caller is defined }}{% endmacro %}{{ h() }}
{% macro f(x) %}<{{ x }}{{ caller('in') }}>{% endmacro %}{% call(y) f('q') %}{{ y }}!{% endcall %}{% macro g() %}({{ caller() }}){% endmacro %}{% call g() %}{% call g() %}deep{% endcall %}{% endcall %}
{% set v = 1 %}{% macro f() %}{{ v }}{% set v = 5 %}{{ v }}{% endmacro %}{{ f() }}{{ v }}{% for v in [7] %}{{ f() }}{% endfor %}{% macro g(n) %}{% if n %}{{ n }}{{ g(n - 1) }}{% endif %}{% endmacro %}{{ g(3) }}{{ f() + 'x' }}{{ f()|length }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}
{% filter upper %}abc{{ text }}{% endfilter %}{% filter replace('a', 'b')|trim %} aa {% endfilter %}{% with a = 1 %}{% with b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}{% generation %}made{{ 1 }}{% endgeneration %}
{% raw %}{{ x }}{% if %}{# no #}{% endraw %}|{%- raw -%}  y  {%- endraw -%}  z
{% raw %}  {% if x %}  {% endraw %}{# comment {{ }} {% #}|a {#- both -#} b|
{{ words|sort }} {{ words|sort(reverse=true) }} {{ words|sort(case_sensitive=true) }} {{ [3, 1, 2]|sort }} {{ boats|sort(attribute='length,name')|map(attribute='name')|list }} {{ boats|sort(attribute='name')|map(attribute='name')|list }} {{ [[2, 'b'], [1, 'c']]|sort(attribute=1) }} {{ ['b', 'a', 'B', 'A']|sort }}
{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ boats|unique(attribute='length')|map(attribute='name')|list }} {{ words|min }} {{ words|max }} {{ [3, 1]|min }} {{ []|max }}| {{ boats|max(attribute='length') == boats[0] }} {{ ['B', 'a']|min(case_sensitive=true) }} {{ [2, 9, 9.0]|max }}
{{ boats|groupby('length')|map('first')|list }} {% for g in boats|groupby('length') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}{% for k, v in words|groupby(0) %}{{ k }}{{ v }}{% endfor %} {% for k, v in boats|groupby('home.port', default='?') %}{{ k }} {% endfor %}
{{ {'b': 1, 'A': 3, 'c': 2}|dictsort }} {{ {'b': 1, 'A': 3}|dictsort(true) }} {{ {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value') }} {{ {'b': 1, 'A': 3}|dictsort(reverse=true) }}
{{ boats|map(attribute='name')|join(', ') }} {{ boats|map(attribute='home.port', default='-')|list }} {{ words|map('upper')|list }} {{ words|map('replace', 'p', 'q')|join }} {{ [[3, 1]]|map('sort')|list }} {{ [-1, 2]|map('abs')|list }} {{ ['1', 'x']|map('int', default=7)|list }} {{ boats|map(attribute='home.port.0')|first }}
{{ [0, 1, 2]|select|list }} {{ [0, 1, 2]|reject|list }} {{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [1, 2, 3]|select('gt', 1)|list }} {{ boats|selectattr('sail')|map(attribute='name')|list }} {{ boats|rejectattr('sail')|map(attribute='name')|list }} {{ boats|selectattr('length', 'eq', 7)|map(attribute='name')|first }} {{ boats|rejectattr('sail', 'defined')|map(attribute='name')|list }} {{ ['a', 'b']|select('in', 'bcd')|list }}
{{ [1, 2, 3]|first }} {{ [1, 2, 3]|last }} {{ []|first }}| {{ 'xyz'|first }} {{ 'xyz'|last }} {{ {'k': 1}|first }} {{ 'abc'|reverse }} {{ [1, 2]|reverse|list }} {{ 'aé'|list }} {{ {'a': 1}|list }} {{ (1, 2)|list }} {{ missing|list }}
{{ [1, 2, 3, 4, 5]|batch(2)|list }} {{ [1, 2, 3]|batch(2, 'x')|list }} {{ [1, 2, 3, 4, 5]|slice(3)|list }} {{ [1, 2, 3, 4]|slice(3, 'x')|list }} {{ [1, 2]|sum }} {{ [0.5, 1]|sum(start=10) }} {{ boats|sum(attribute='length') }} {{ []|sum }}
{{ [1, 2]|join }} {{ [1, 2]|join('-') }} {{ ['a', none, 1.5]|join(', ') }} {{ 'abc'|join('.') }} {{ boats|join('/', attribute='name') }} {{ []|join('x') }}| {{ {'a': 1, 'b': 2}|join(',') }} {{ [[1], 'x']|join(' ') }}
{{ text|length }} {{ 'é⚓'|length }} {{ things|length }} {{ box|count }} {{ missing|length }} {{ (1, 2)|length }} {{ ''|length }}
{{ 5|length }}
{{ none|length }}
{{ text|upper }} {{ text|lower }} {{ 'straße'|upper }} {{ 'ﬁn'|upper }} {{ 'ΑΣ ΣΑ'|lower }} {{ 'İ'|lower|length }} {{ 'ǆ'|upper }} {{ 'hello wORLD-foo (bar) [baz'|title }} {{ "o'neil x"|title }} {{ 'hELLO wORLD'|capitalize }} {{ 'ßa'|capitalize }} {{ 'ǆa'|capitalize }}
{{ 'hELLO wORLD'.title() }} {{ "they're 3rd".title() }} {{ 'ab'.capitalize() }} {{ 'aBc'.swapcase() }} {{ 'ABC'.lower() }} {{ 'abc'.upper() }} {{ 'SS'.casefold() }}
{{ '  a b  '|trim }}| {{ 'xxaxx'|trim('x') }} {{ '  a '.strip() }}| {{ '  a '.lstrip() }}| {{ '  a '.rstrip() }}| {{ 'xyaxy'.strip('yx') }} {{ '--a--'.lstrip('-') }} {{ '--a--'.rstrip('-') }} {{ '\u3000\u00a0a\u2028\x1c'|trim }}| {{ ''|trim }}| {{ '   '|trim }}| {{ 'éaé'|trim('é') }}
{{ 'aXbXc'|replace('X', '-') }} {{ 'aaaa'|replace('a', 'b', 2) }} {{ 'aaaa'|replace('aa', 'b') }} {{ 'abc'|replace('', '-') }} {{ 'abc'|replace('x', 'y') }} {{ 5|replace(5, 6) }} {{ 'aXb'.replace('X', '') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ 'éa'|replace('', '.') }} {{ 'aa'|replace('a', 'b', 0) }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.split(none, 1) }} {{ 'a  b'.split(' ') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a<>b<>c'.split('<>') }} {{ 'abc'.rsplit('x') }} {{ 'aaa'.rsplit('aa') }} {{ 'a b'.split(' ', -1) }} {{ 'a,b'.split(',', 0) }} {{ 'a b'.rsplit() }}
{{ 'a'.split('') }}
{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}
{{ 'l1\nl2\r\nl3\x0bl4\u2028l5\n'.splitlines() }} {{ 'a\n\nb'.splitlines(true) }} {{ ''.splitlines() }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.startswith('b') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith(()) }} {{ 'abc'.startswith('') }} {{ 'abc'.find('c') }} {{ 'abc'.find('x') }} {{ 'éabca'.rfind('a') }} {{ 'éabc'.index('b') }} {{ 'aXaXa'.count('a') }} {{ 'abc'.count('') }} {{ 'aaa'.count('aa') }} {{ 'ab'.rfind('x') }}
{{ 'abc'.index('x') }}
{{ 'abc'.startswith(1) }}
{{ 'pre-x'.removeprefix('pre-') }} {{ 'x'.removeprefix('pre-') }} {{ 'x.md'.removesuffix('.md') }} {{ 'x'.removesuffix('.md') }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '*') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'abcd'.zfill(2) }} {{ ','.join(['a', 'b']) }} {{ 'a'.center(4) }}| {{ 'ab'.center(5) }}|
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ '1a'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalpha() }} {{ 'a1'.isalnum() }} {{ 'a_'.isalnum() }} {{ ' \t'.isspace() }} {{ 'a '.isspace() }} {{ 'ab'.islower() }} {{ 'aB'.islower() }} {{ '12'.islower() }} {{ 'AB'.isupper() }} {{ 'A1'.isupper() }} {{ '1'.isnumeric() }} {{ 'éß'.isalpha() }} {{ '٣'.isdecimal() }}
{{ 'ab'|center(6) }}| {{ 'abc'|center(8) }}| {{ 'abc'|center(2) }} {{ 'a\nb\n\nc'|indent }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(1, blank=true) }} {{ 'a\nb'|indent('> ') }} {{ 'a\nb\n'|indent(2) }}| {{ ''|indent(3) }}|
{{ 'one two three'|truncate(9) }} {{ 'one two three four'|truncate(9) }} {{ 'one two three'|truncate(9, true) }} {{ 'one two three four'|truncate(9, true, leeway=0) }} {{ 'one two three four'|truncate(10, false, '…', 0) }} {{ 'Joel is a slug'|truncate(7, leeway=0) }}
{{ 'one two  three-four'|wordcount }} {{ 'a_b c'|wordcount }} {{ ''|wordcount }} {{ 'one two three four five'|wordwrap(9) }} {{ 'abcdefghij'|wordwrap(4) }} {{ 'abcdefghij kl'|wordwrap(4, false) }} {{ 'well-known thing'|wordwrap(6) }} {{ 'well-known thing'|wordwrap(6, break_on_hyphens=false) }} {{ 'a b c d'|wordwrap(3, wrapstring='/') }} {{ 'a\n\nb c'|wordwrap(2) }}
{{ 'a b/ü?&'|urlencode }} {{ {'a b': 'ü/', 'c': 1}|urlencode }} {{ [('x', 'y z')]|urlencode }} {{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 0|filesizeformat }} {{ 999|filesizeformat }} {{ 1500000|filesizeformat }} {{ 1024|filesizeformat(true) }} {{ 1048576|filesizeformat(true) }} {{ 3e25|filesizeformat }} {{ '2000'|filesizeformat }}
{{ '3.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ '0x1f'|int(0, 16) }} {{ '1f'|int(base=16) }} {{ '12'|int(base=3) }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int(2) }} {{ '  42 '|int }} {{ '1e3'|int }} {{ [1]|int }} {{ '-5'|int }} {{ '1_000'|int }} {{ '99'|int(base=8) }} {{ ''|int }}
{{ '3.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ '1e3'|float }} {{ ' 2 '|float }} {{ none|float(7) }} {{ 'inf'|float }} {{ '-.5'|float }} {{ '1_0.5'|float }}
{{ missing|int }}
{{ missing|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 7|round }} {{ 7.1|round(0, 'ceil') }} {{ 7.9|round(0, 'floor') }} {{ 1234.567|round(-2) }} {{ 1.25|round(1) }} {{ -2.5|round }} {{ 7.128|round(2, 'floor') }} {{ 42|round(2) }} {{ 1e20|round(2) }}
{{ 'a'|round }}
{{ 5|round(0, 'up') }}
{{ -5|abs }} {{ -5.5|abs }} {{ true|abs }} {{ 5|string ~ 1 }} {{ none|string }} {{ [1]|string }} {{ true|string|length }} {{ missing|string }}|
{{ 'a'|abs }}
{{ missing|default('d') }} {{ none|default('d') }} {{ ''|default('d', true) }} {{ 0|d('d', boolean=true) }} {{ missing|default }}| {{ false|default('x') }} {{ 5|default('x', true) }} {{ box.nope|default('q') }}
{{ {'a': [1, {'b': none}], 'c': true, 'd': 1.5, 'é': '⚓<>&\''}|tojson }} {{ 'a"\\\n\r\t\b\f\x01\x7f'|tojson }} {{ 'é'|tojson(ensure_ascii=true) }} {{ '⚓😀'|tojson(true) }} {{ [1, [2], {}, [], {'a': {}}]|tojson(indent=2) }} {{ [1]|tojson(indent=0) }} {{ []|tojson(indent=2) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true) }} {{ [1, {'a': 2}]|tojson(separators=(',', ':')) }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, 2.5: 4, false: 5}|tojson }} {{ 1e16|tojson }} {{ none|tojson }} {{ (1e308 * 10)|tojson }} {{ {'a': 1}|tojson(indent=1, separators=(', ', '=')) }}
{{ range|tojson }}
{{ '%s|%d|%5.1f|%x|%%' % ('a', 3, 2.25, 255) }} {{ '%s' % 5 }} {{ '%05d' % 42 }} {{ '%-5d|' % 42 }} {{ '%+d % d' % (1, 2) }} {{ '%(a)s %(b)d' % {'a': 'x', 'b': 2} }} {{ '%r' % 'q' }} {{ '%c%c' % ('a', 98) }} {{ '%e %g %G' % (12345.678, 0.00001, 1e20) }} {{ '%X %o %#x' % (255, 8, 255) }} {{ '%d' % 3.9 }} {{ '%.2s' % 'abc' }} {{ '%5s|%-5s|' % ('a', 'b') }} {{ '%*d' % (4, 7) }} {{ '%i' % true }} {{ '%s' % [1] }} {{ '%s %s' % ('a', none) }} {{ 'a%%b' % () }}
{{ '%s-%d'|format('a', 3) }} {{ '%(x)s'|format(x=1) }} {{ 'plain'|format }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '%q' % 1 }}
{{ '%x' % 1.5 }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('x', 'y') }} {{ '{n}'.format(n=5) }} {{ '{:5}|{:<5}|{:>5}|{:^5}|'.format('ab', 'ab', 'ab', 'ab') }} {{ '{:05d} {:+d} {: d}'.format(42, 1, 2) }} {{ '{:.2f} {:8.3f}|'.format(3.14159, 2.5) }} {{ '{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255) }} {{ '{:,} {:_}'.format(1234567, 1234567) }} {{ '{:*^7}'.format('a') }} {{ '{!r} {!s}'.format('a', 'b') }} {{ '{{}}'.format() }} {{ '{:%}'.format(0.25) }} {{ '{:e}'.format(1234.5) }} {{ '{:.3}'.format('abcdef') }} {{ '{:=+5}'.format(3) }} {{ '{:5}|{:5}|'.format(1, 1.5) }} {{ '{:g}'.format(0.0001) }} {{ '{}'.format([1]) }} {{ '{:,.2f}'.format(12345.678) }}
{{ '{'.format() }}
{{ '{} {}'.format(1) }}
{{ '{x}'.format() }}
{{ '{:d}'.format('a') }}
{{ '{:d}'.format(1.5) }}
{{ text is string }} {{ 5 is string }} {{ 5 is number }} {{ true is number }} {{ 1.5 is number }} {{ 'a' is number }} {{ 5 is integer }} {{ true is integer }} {{ 1.5 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }} {{ none is none }} {{ missing is none }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ box is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ 5 is sequence }} {{ {} is iterable }} {{ 5 is iterable }} {{ range is callable }} {{ text is callable }} {{ missing is undefined }}
{{ 3 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 5 is divisibleby(5) }} {{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'ABC' is upper }} {{ '1' is upper }} {{ 2 is gt 1 }} {{ 2 is ge 2 }} {{ 2 is lt 1 }} {{ 2 is le 2 }} {{ 2 is ne 1 }} {{ 2 is greaterthan 1 }} {{ 2 is lessthan 1 }} {{ 2 is equalto 2 }} {{ 2 is sameas 2 }} {{ true is sameas true }} {{ 1 is sameas true }} {{ [] is sameas [] }} {{ box is sameas box }} {{ 'a' is sameas 'a' }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ 'a' is escaped }}
{{ 1 is divisibleby 0 }}
{{ 'a' is odd }}
{{ missing is even }}
{{ range(4)|list }} {{ range(1, 4)|list }} {{ range(0, 9, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(3, 3)|list }} {{ range(-2)|list }} {{ dict(a=1, b=2) }} {{ dict([('a', 1)], b=2) }} {{ dict({'x': 1}) }} {{ range(10)|sum }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}{% set j = joiner('; ') %}{{ j() }}{{ j() }}{{ j() }}{% set k = joiner() %}{{ k() }}{{ k() }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%a %A %b %B %j %y %I %p %e %%') }} {{ strftime_now('%-d/%-m %-H %-I') }} {{ strftime_now('%F %T %D') }} {{ strftime_now('day') }}
{{ raise_exception('stop ' ~ count) }}
{{ text|attr('upper') is callable }} {{ box|attr('name') is defined }} {{ namespace(q=4)|attr('q') }}
{{ '<b>'|e }} {{ "'\"&"|escape }}
{{ [1, 2].index(2) }} {{ [1, 2, 1].count(1) }} {{ (1, 2).index(1) }} {{ [1].copy() }}
{{ [1].index(5) }}
{{ words.sort() }}
{{ words.clear() }}
{{ box.update({}) }}
{{ box.pop('name') }}
{{ box.setdefault('a', 1) }}
{{ ''.__class__.__mro__ }}
{{ text|nope }}
{{ text is nope }}
{% if false %}{{ text|nope }}{{ text is nope }}{% endif %}fine
{{ 1 if true else text|nope }}
{% nope %}
{% if %}{% endif %}
{% if yes %}
{% endif %}
{% else %}
{% for x in things %}{% endif %}
{% for in things %}{% endfor %}
{% for x things %}{% endfor %}
{% set %}
{% set x = %}
{% macro %}{% endmacro %}
{% macro f %}{% endmacro %}
{% call 5 %}{% endcall %}
{% elif %}
{{ }}
{{ 1 + }}
{{ 1 2 }}
{{ (1 }}
{{ [1 }}
{{ {1} }}
{{ {1:} }}
{{ 'a }}
{{ a b }}
{{ a. }}
{{ a[ }}
{{ a|}}
{{ a is }}
{{ f(a=1, 2) }}
{{ 1 = 2 }}
{{ $ }}
{{ a ? b }}
{# open
{% raw %}
{% raw %}a
{{ loop['index'] }}
{% for x in [1] %}{{ loop['index'] }}{{ loop['nope'] }}{% endfor %}{{ text['upper']() }}{{ box['__class__'] }}
{% if yes
{{ 1
text only
{{ 'a' }}}
} } { %}  {
{{ {'a': {'b': 1}}['a']['b'] }} {{ {'a': {}} }}
{{ text | upper | lower | length }} {{ text|replace(' ', '_')|upper }} {{ (text|upper)[0] }} {{ [1, 2]|first + 1 }} {{ -5|abs + 1 }} {{ 2 * 3|string }} {{ 'a' in 'abc'|upper }}
{{ things | map('string') | join('|') }} {{ box.sizes | sum + count }} {{ (boats | first).name }} {{ boats[0].home.port[0] }} {{ 'x'.join(words[:2]) }} {{ words|first|upper|replace('P', 'Q') }}
{{ quotes }}|{{ quotes|tojson }}|{{ [quotes] }}
{{ text.split(', ')[1].upper() }} {{ box['sizes'][-1] }} {{ {'f': 5}.f }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[1].upper() }} {{ "%s" % text.split(',')[0] }}
""".strip("\n").split("\n")

MULTILINE = [
    "  {% if yes %}\n    a\n  {% endif %}\nb\n", "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a {%- if yes -%} b {%- endif -%} c",
    "a\n\n  {%- if yes -%}\n\n b \n{%- endif -%}\n\nc", "{{ 1 }}\n{{ 2 }}\n", "{{ 1 -}}\n {{- 2 -}} \n3", "x {% if yes %} y {% endif %} z",
    "x {% if yes %}\n y\n{% endif %} z\n", "{%+ if yes %}a{% endif %}", "  {%+ if yes %}a{%+ endif %}\n", "{% if yes +%}\na{% endif %}",
    "{# c #}\nx", "  {# c #}\nx", "a  {# c #}  b", "a\n  {#- c -#}\n  b", "  {#+ c #}x", "{% for x in [1, 2] %}\n  {{ x }}\n{% endfor %}\n",
    "{% for x in [1, 2] -%}\n  {{ x }}\n{%- endfor %}\n", "\n\n", "a\n", "a\n\n", "\r\na\r\n{% if yes %}\r\nb\r\n{% endif %}\r", "a\rb\r\n",
    "\t{% if yes %}\tx\t{% endif %}\t\n", "{% set x = 1 %}  {% set y = 2 %}\n{{ x }}", "a{% set x = 1 %}\n\n  {% set y = 2 %}\n{{ x }}{{ y }}",
    "{% raw %}\n{{ a }}\n{% endraw %}\nb", "  {% raw %}  {{ a }}  {% endraw %}  b", "{%- raw -%}\n a \n{%- endraw -%}\n b", "{{ 'a\\\nb' }}",
    "{{ 'a\nb' }}", "{% if yes %}a{% endif %}\n\nb", "{{ [1,\n 2,\n 3] }}", "{% set x = [\n1,\n2\n] %}\n{{ x }}", "\u00a0{% if yes %}a{% endif %}",
    "a\u2003\n{%- if yes %}b{% endif %}", "{% if yes %}{# x #}\n  {# y #}\n{% endif %}z", "{{ 1 }}{# x #}\n{{ 2 }}", "-{{ 1 }}-\n-%}-", "{{ 5 -1 }} {{ 5 - 1}}{{-5}}",
    "{% macro f(a) %}\n  <{{ a }}>\n{% endmacro %}\n{{ f(1) }}\n{{ f(2) -}}\n!", "{% call(a) f() %}x{% endcall %}",
    "{% filter upper %}\n  a\n{% endfilter %}\nb", "{%if yes%}a{%endif%}{{count}}{{-count-}}", "{% set x %}\n  a\n{% endset %}\n[{{ x }}]",
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def kind_of(error):
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return "syntax"
    if isinstance(error, jinja2.exceptions.SecurityError):
        return "forbidden"
    if isinstance(error, jinja2.exceptions.UndefinedError):
        return "undefined"
    if type(error) is jinja2.exceptions.TemplateError:
        return "raised"
    return "value"


def main():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    clock = datetime.datetime(2027, 3, 4, 15, 6, 7)
    environment.globals["strftime_now"] = lambda form: clock.strftime(form)
    print(json.dumps({"variables": VARIABLES}, ensure_ascii=False))
    for snippet in SNIPPETS + MULTILINE:
        row = {"template": snippet}
        try:
            row["result"] = str(environment.from_string(snippet).render(**VARIABLES))
        except Exception as error:
            row["error"] = kind_of(error)
            if row["error"] == "raised":
                row["message"] = str(error)
            print(f"{row['error']:10} {snippet!r}: {type(error).__name__}: {error}", file=sys.stderr)
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
