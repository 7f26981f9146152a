#!/usr/bin/env python3
"""Writes src/text/testdata/templates.json: templates, variables, and what Python's jinja2 makes of them under transformers' settings."""
import json
import pathlib
import sys

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/text/testdata/templates.json"
USER = {"role": "user", "content": "Hi there, Zoë! 2 < 3 & \"x\""}
CHAT = [{"role": "system", "content": " Be brief.\n"}, USER, {"role": "assistant", "content": "Hello\n\n"}, {"role": "user", "content": "Bye"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather é", "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["a", "b"]}}, "required": ["city"]}}}]
CALLS = CHAT[:2] + [{"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "n": 1.5, "t": True, "z": None}}}]}, {"role": "tool", "content": "18 C", "name": "get_weather"}]

CHATML = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
SMOLLM = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
LLAMA3 = "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
LLAMA2 = "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
GEMMA = "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
"""
MACROS = """{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "List[" + json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type == "object" %}
    {{- "Dict[str, Any]" }}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}
        {{- "," }}
    {%- endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- for tool in tools %}
{%- set tool = tool.function %}
def {{ tool.name }}({% for p, spec in tool.parameters.properties.items() %}{{ p }}: {{ json_to_python_type(spec) }}{% if not loop.last %}, {% endif %}{% endfor %}) -> {{ json_to_python_type({"type": ["string", "integer"]}) }}
{% endfor %}"""
V = {"messages": CHAT, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
N = {"a": 7, "b": -3, "f": 2.5, "s": "Straße ß ﬁ", "t": "  pad\t\n", "l": [3, 1, 2], "d": {"z": 1, "a": [True, None, "it's \"q\""]}, "e": "", "n": None,
     "people": [{"name": "bob", "age": 3, "x": {"y": 1}}, {"name": "Al", "age": 5, "x": {"y": 0}}, {"name": "cy", "age": 3}], "w": "a,b,,c"}
CASES = [("chatml", CHATML, V), ("smollm", SMOLLM, V), ("smollm_default_system", SMOLLM, {**V, "messages": [USER]}), ("llama3", LLAMA3, V), ("llama2", LLAMA2, V), ("gemma_error", GEMMA, V),
         ("gemma", GEMMA, {**V, "messages": CHAT[1:]}), ("gemma_alternate", GEMMA, {**V, "messages": [USER, USER]}), ("qwen25", QWEN25, V), ("qwen25_tools", QWEN25, {**V, "tools": TOOLS, "messages": CALLS}),
         ("qwen3", QWEN3, {**V, "messages": CHAT[:2] + [{"role": "assistant", "content": "<think>\nhm\n</think>\n\nOk"}] + CHAT[3:]}), ("qwen3_off", QWEN3, {**V, "enable_thinking": False}),
         ("llama31", LLAMA31, V), ("llama31_tools", LLAMA31, {**V, "tools": TOOLS, "messages": CALLS}), ("macros", MACROS, {"tools": TOOLS})]
SNIPPETS = {
    "trim_blocks": "a\n  {% if true %}\n  b\n  {% endif %}\nc\n\n", "lstrip_plus": "a\n  {%+ if true %}b{% endif +%}\nc", "minus": "a \n {%- if true -%} \n b \n {%- endif -%} \n c", "comment": "a\n  {# x #}\nb {#- y -#} c\n",
    "print_whitespace": "  {{ 1 }}\n  {{- 2 -}}  \n  {{ 3 }}\n", "raw": "{% raw %}{{ x }} {% y %}{% endraw %}!", "raw_lines": "a\n  {% raw %}\n {{ b }}\n  {% endraw %}\nc", "loop_vars": "{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}:{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem is defined }}{{ loop.nextitem }};{% endfor %}",
    "loop_else": "{% for x in [] %}x{% else %}none{% endfor %}", "loop_if": "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% endfor %}", "loop_tuple": "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}", "loop_break": "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "loop_cycle": "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "loop_recursive": "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}", "loop_scope": "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "if_scope": "{% if true %}{% set q = 5 %}{% endif %}{{ q }}",
    "namespace": "{% set ns = namespace(n=0, s='') %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }} {{ ns.s }}", "macro_defaults": "{% macro m(a, b=2, c='x') %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c='y') }}{{ m() }}", "call_block": "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in{% endcall %}",
    "call_arguments": "{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(y) each(l) %}<{{ y }}>{% endcall %}", "set_block": "{% set x %}a{{ 1 + 1 }}\n{% endset %}[{{ x }}]{% set y | upper %}abc{% endset %}{{ y }}", "filter_block": "{% filter upper | trim %} ab {{ s }} {% endfilter %}", "with": "{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "arithmetic": "{{ a + b }} {{ a - b }} {{ a * b }} {{ a / 2 }} {{ a // b }} {{ a % b }} {{ -a // 2 }} {{ a ** 2 }} {{ 2 ** -1 }} {{ f * 2 }} {{ 7 // 2.0 }} {{ -7 % 3.0 }} {{ 1e20 }} {{ 1.0 }} {{ 1_000 }} {{ 0.1 + 0.2 }} {{ 1e-7 }}",
    "compare": "{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ [1, 2] == [1, 2] }} {{ 'a' in 'abc' }} {{ 4 not in l }} {{ 'z' in d }} {{ none == false }} {{ true == 1 }}", "logic": "{{ a and e or 'dflt' }} {{ not e }} {{ e or n }} {{ 'x' if a > 5 else 'y' }} {{ 'x' if a > 50 }}|",
    "precedence": "{{ (1 + 2 * 3) ~ 'x' }} {{ -2 | abs }} {{ 'a' ~ 1 * 2 }} {{ 'a' + 'b' ~ 1 }} {{ not a == 7 }} {{ '%s' % 'q' | upper }} {{ (1, 2)[1] }} {{ [1, 2, 3][-1] }}", "slices": "{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ s[2:5] }} {{ s[::-1] }} {{ s[-3:] }} {{ l[5:] }} {{ s[0] }} {{ l[::2] }} {{ (1, 2, 3)[1:] }}",
    "literals": "{{ [1, 'a', none, true, 2.0, {'k': (1,)}] }} {{ {} }} {{ () }} {{ \"a'b\" }} {{ 'a\\n\\x41\\u00e9' }} {{ 'con' 'cat' }} {{ [\"it's\", 'say \"x\"', 'both \\' \"'] }}", "undefined": "[{{ nope }}] {{ nope is defined }} {{ d.nope is undefined }} {{ nope | default('d') }} {{ e | default('d', true) }} {{ d['nope'] }} {% if nope %}x{% endif %}{% for x in nope %}y{% endfor %}",
    "undefined_error": "a\n{{ nope.x }}", "undefined_add": "{{ 'a' + nope }}", "none_add": "{{ 'a' + n }}", "tests": "{{ a is odd }} {{ a is even }} {{ a is divisibleby 7 }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ l is iterable }} {{ n is none }} {{ a is number }} {{ true is boolean }} {{ f is float }} {{ a is integer }} {{ a is eq 7 }} {{ a is gt(3) }} {{ 1 is in [1] }} {{ a is not none }} {{ 'A' is upper }} {{ 'a' is lower }} {{ a is sameas a }} {{ range is callable }}",
    "string_methods": "{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ s.upper() }}|{{ s.lower() }}|{{ 'hello wORLD it\\'s'.title() }}|{{ 'hELLO w'.capitalize() }}|{{ w.split(',') }}|{{ w.split(',', 1) }}|{{ w.rsplit(',', 1) }}|{{ ' a  b '.split() }}|{{ 'xxabxx'.strip('x') }}|{{ s.startswith('Str') }}|{{ s.endswith(('x', 'ﬁ')) }}|{{ w.replace(',', ';', 2) }}|{{ s.find('ß') }}|{{ w.count(',') }}|{{ '-'.join(['a', 'b']) }}|{{ '12'.isdigit() }}|{{ 'a1'.isalpha() }}|{{ ' '.isspace() }}|{{ 'a-b-c'.partition('-') }}|{{ 'ab'.removeprefix('a') }}|{{ '5'.zfill(3) }}|{{ 'a\\nb\\r\\nc'.splitlines() }}|{{ '{} {1} {x}'.format(1, 2, x=3) if false else '{}-{}'.format(1, 'b') }}",
    "filters": "{{ l | sort }} {{ l | sort(reverse=true) }} {{ l | first }} {{ l | last }} {{ l | length }} {{ l | sum }} {{ l | max }} {{ l | min }} {{ l | reverse | list }} {{ l | join('-') }} {{ s | upper }} {{ s | title }} {{ t | trim }} {{ 'abc' | list }} {{ 'a b' | capitalize }} {{ '3' | int + 1 }} {{ 'x' | int(9) }} {{ '2.5' | float }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ a | string + 'x' }} {{ 'abc' | reverse }} {{ -5 | abs }} {{ 'a<b>&' | e }} {{ ['b', 'A'] | sort }} {{ [1, 1, 2] | unique | list }} {{ 'one two' | wordcount }} {{ 'x%sy' | format(1) }} {{ 'aXa' | replace('a', 'b') }}",
    "filters_objects": "{{ people | map(attribute='name') | join(',') }} {{ people | selectattr('age', 'equalto', 3) | map(attribute='name') | list }} {{ people | rejectattr('age', 'gt', 3) | list | length }} {{ people | sort(attribute='name') | map(attribute='name') | list }} {{ l | map('string') | join }} {{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ people | map(attribute='x.y', default='-') | list }} {{ people | sum(attribute='age') }} {{ d | dictsort }} {{ d | items | list }} {% for g, xs in people | groupby('age') %}{{ g }}:{{ xs | length }} {% endfor %}{{ l | batch(2) | list }} {{ people | selectattr('x') | list | length }}",
    "tojson": "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {'é': '\\u2028<\\n\\t\\\\'} | tojson }} {{ 1.0 | tojson }} {{ 'x' | tojson }}", "indent": "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\nb' | indent(width=1) }}", "dict_methods": "{{ d.keys() | list }} {{ d.get('z') }} {{ d.get('q', 4) }} {{ d.get('q') }} {{ dict(a=1, b=2) }} {{ d.values() | list | length }}",
    "globals": "{{ range(3) | list }} {{ range(5, 0, -2) | list }} {% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %} {% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}", "raise": "a\n\n{{ raise_exception('No ' ~ a) }}", "append": "{{ l.append(4) }}", "percent": "{{ '%d-%05.2f-%s-%%' % (a, f, s) }}", "unpack": "{% set x, y = 1, 2 %}{{ y }}{{ x }}", "set_tuple": "{% set x = 1, 2 %}{{ x }}",
    "division_by_zero": "{{ 1 / 0 }}", "unknown_filter": "{{ a | nofilter }}", "syntax": "{% if %}", "unclosed": "{% for x in l %}", "braces": "{{ {'a': {'b': 1}}['a']['b'] }} {{ '}}' }}{{ '%}' }}", "crlf": "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n", "nested_attr": "{{ people[0].x.y }} {{ people.0.name }} {{ d['a'][2] }}", "elif": "{% if a == 1 %}1{% elif a == 7 %}7{% else %}0{% endif %}", "generation": "{{ 'x' if true else 'y' }}{{ 'b' * 3 }}{{ [1] * 2 }}{{ [1] + [2] }}",
}
CASES += [(name, source, N) for name, source in SNIPPETS.items()]


def render(source, variables):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    return env.from_string(source).render(**variables)


def main():
    rows = []
    for name, source, variables in CASES:
        row = {"name": name, "template": source, "variables": variables}
        try:
            row["expected"] = render(source, variables)
        except Exception as e:  # noqa: BLE001: any failure of Python's is one that Tenon must report as well
            row["error"] = str(e)
        rows.append(row)
    OUT.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(rows)} templates, {sum('error' in r for r in rows)} of them wrong on purpose", file=sys.stderr)
    for r in rows:
        if "error" in r:
            print("  ", r["name"], r["error"], file=sys.stderr)


main()
