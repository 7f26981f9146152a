"""A checker of the Trace Event Format, as chrome://tracing and Perfetto's importer take it."""
import collections
import numbers

PHASES = {"B", "E", "X", "i", "I", "C", "b", "n", "e", "s", "t", "f", "P", "N", "O", "D", "M", "V", "v", "R", "c"}
METADATA = {"process_name": str, "process_labels": str, "process_sort_index": int, "thread_name": str, "thread_sort_index": int}
EPSILON = 1e-3   # us: the clock has nanoseconds


def problems(trace):
    """What is wrong with a parsed trace; empty when it is sound."""
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    if not isinstance(events, list):
        return ["traceEvents is no list"]
    found, spans, flows = [], collections.defaultdict(list), collections.defaultdict(list)
    if isinstance(trace, dict) and trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    for index, event in enumerate(events):
        where = f"event {index}: "
        phase = event.get("ph")
        if phase not in PHASES:
            found.append(f"{where}phase {phase!r}")
            continue
        for key in ("pid", "tid"):
            if not isinstance(event.get(key), int):
                found.append(f"{where}{key} is no integer")
        if not isinstance(event.get("name"), str) or not event["name"]:
            found.append(f"{where}has no name")
        if "args" in event and not isinstance(event["args"], dict):
            found.append(f"{where}args are no object")
        if phase == "M":
            kind = METADATA.get(event.get("name"))
            if kind is None or not isinstance(next(iter(event.get("args", {}).values()), None), kind):
                found.append(f"{where}metadata {event.get('name')!r} without its argument")
            continue
        time = event.get("ts")
        if not isinstance(time, numbers.Real) or time < 0:
            found.append(f"{where}ts is {time!r}")
            continue
        if phase == "X":
            if not isinstance(event.get("dur"), numbers.Real) or event["dur"] < 0:
                found.append(f"{where}dur is {event.get('dur')!r}")
            else:
                spans[event["pid"], event["tid"]].append((time, time + event["dur"], index))
        elif phase in "stf":
            if "id" not in event:
                found.append(f"{where}a flow without id")
            flows[event.get("cat"), event.get("name"), event.get("id")].append((phase, time, event["pid"], event["tid"]))
    return found + overlaps(spans) + loose_flows(flows, spans)


def overlaps(spans):
    """Complete events of one thread must nest."""
    found = []
    for thread, rows in spans.items():
        open_ends = []
        for start, end, index in sorted(rows, key=lambda r: (r[0], -r[1])):
            while open_ends and open_ends[-1] <= start + EPSILON:
                open_ends.pop()
            if open_ends and end > open_ends[-1] + EPSILON:
                found.append(f"event {index}: crosses the end of another of thread {thread}")
            open_ends.append(end)
    return found


def loose_flows(flows, spans):
    """A flow begins once, ends once, not before it began, and each end lies in a complete event."""
    found = []
    for key, steps in flows.items():
        kinds = [phase for phase, *_ in steps]
        if kinds.count("s") != 1 or kinds.count("f") != 1:
            found.append(f"flow {key}: {kinds}")
            continue
        times = {phase: time for phase, time, *_ in steps}
        if times["s"] > times["f"]:
            found.append(f"flow {key}: ends before it begins")
        for phase, time, pid, tid in steps:
            if not any(start - EPSILON <= time <= end + EPSILON for start, end, _ in spans[pid, tid]):
                found.append(f"flow {key}: its {phase} lies in no event")
    return found
