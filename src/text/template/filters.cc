// Filters and tests.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "text/template/interpreter.h"
#include "text/template/strings.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

using V = Value::Kind;
using Filter = Value (*)(Interpreter*, const Value&, const Arguments&);
using Test = bool (*)(Interpreter*, const Value&, const Arguments&);

int64_t CountOf(const Value& v) {
  if (v.IsString()) return static_cast<int64_t>(Length(v.str()));
  if (v.IsList()) return static_cast<int64_t>(v.list().size());
  if (v.IsDict()) return static_cast<int64_t>(v.dict().size());
  if (v.Is(V::kUndefined)) return 0;
  throw TemplateError{std::string("object of type '") + v.TypeName() + "' has no len()"};
}

Value Pair(Value a, Value b) {
  return Value::MakeList({std::move(a), std::move(b)}, true);
}

// The attribute "a.b.0" of a value.
Value Dig(Interpreter* i, Value v, const Value& path) {
  if (path.IsInteger()) return i->GetItem(v, path);
  const std::string& text = path.IsString() ? path.text() : throw TemplateError{"an attribute that is no name"};
  for (size_t at = 0; at <= text.size();) {
    const size_t dot = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, dot - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos && part.size() < 10;
    v = v.Is(V::kUndefined) ? v : i->GetItem(v, number ? Value::Int(std::stoll(part)) : Value::String(part));
    at = dot + 1;
  }
  return v;
}

// Strings of different case are equal to the filters that sort and group.
Value Folded(const Value& v, bool case_sensitive) {
  return v.IsString() && !case_sensitive ? Value::String(Lowercase(v.text())) : v;
}

List SortedBy(Interpreter* i, List items, const Value& attribute, bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : items)
    keyed.emplace_back(Folded(attribute.Is(V::kUndefined) || attribute.Is(V::kNone) ? v : Dig(i, v, attribute), case_sensitive),
                       v);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? b.first.Compare(a.first) < 0 : a.first.Compare(b.first) < 0;
  });
  items.clear();
  for (auto& k : keyed) items.push_back(std::move(k.second));
  return items;
}

// select, reject, selectattr, rejectattr.
Value Selected(Interpreter* i, const Value& v, const Arguments& a, bool by_attribute, bool keep) {
  const size_t first = by_attribute ? 1 : 0;
  Arguments rest;
  for (size_t k = first + 1; k < a.positional.size(); ++k) rest.positional.push_back(a.positional[k]);
  List out;
  for (const Value& item : ToList(v)) {
    const Value object = by_attribute ? Dig(i, item, a.Get(0, "attribute")) : item;
    const bool holds =
        a.positional.size() > first ? i->ApplyTest(ToText(a.positional[first]).text, object, rest) : object.Truth();
    if (holds == keep) out.push_back(item);
  }
  return Value::MakeList(std::move(out));
}

Value MapFilter(Interpreter* i, const Value& v, const Arguments& a) {
  List out;
  if (const Value* attribute = a.positional.empty() ? a.Find(0, "attribute") : nullptr) {
    const Value* otherwise = a.Find(1, "default");
    for (const Value& item : ToList(v)) {
      Value got = Dig(i, item, *attribute);
      out.push_back(got.Is(V::kUndefined) && otherwise != nullptr ? *otherwise : got);
    }
    return Value::MakeList(std::move(out));
  }
  if (a.positional.empty()) throw TemplateError{"map requires a filter argument"};
  Arguments rest{{a.positional.begin() + 1, a.positional.end()}, a.named};
  for (const Value& item : ToList(v)) out.push_back(i->ApplyFilter(ToText(a.positional[0]).text, item, rest));
  return Value::MakeList(std::move(out));
}

Value Join(Interpreter* i, const Value& v, const Arguments& a) {
  const Str separator = ToText(a.Get(0, "d", Value::String("")));
  const Value attribute = a.Get(1, "attribute");
  Str out;
  bool first = true;
  for (const Value& item : ToList(v)) {
    if (!first) out.Append(separator);
    first = false;
    out.Append(ToText(attribute.Is(V::kUndefined) ? item : Dig(i, item, attribute)));
    if (out.text.size() > (size_t{64} << 20)) throw TemplateError{"a joined text that is too large", 0, true};
  }
  return Value::String(std::move(out));
}

Value Default(Interpreter*, const Value& v, const Arguments& a) {
  const bool boolean = a.Get(1, "boolean", Value::Bool(false)).Truth();
  return v.Is(V::kUndefined) || (boolean && !v.Truth()) ? a.Get(0, "default_value", Value::String("")) : v;
}

Value ToJsonFilter(Interpreter*, const Value& v, const Arguments& a) {
  const Value indent = a.Get(1, "indent", a.Get(0, "indent", Value::None()));
  const bool sort = a.Get(3, "sort_keys", Value::Bool(false)).Truth();
  return Value::String(ToJson(v, indent.Is(V::kInt) ? static_cast<int>(std::clamp<int64_t>(indent.integer(), 0, 64)) : -1, sort));
}

Value Indent(Interpreter*, const Value& v, const Arguments& a) {
  const Value width = a.Get(0, "width", Value::Int(4));
  const Str pad = width.IsString()
                      ? width.str()
                      : Str::Own(std::string(static_cast<size_t>(std::clamp<int64_t>(width.integer(), 0, 1000)), ' '));
  const bool first = a.Get(1, "first", Value::Bool(false)).Truth();
  const bool blank = a.Get(2, "blank", Value::Bool(false)).Truth();
  const Str s = ToText(v);
  Str out;
  size_t at = 0;
  for (bool begin = true; at <= s.text.size(); begin = false) {
    const size_t end = std::min(s.text.find('\n', at), s.text.size());
    if (begin ? first : blank || end > at) out.Append(pad);
    out.Append(s.Sub(at, std::min(end + 1, s.text.size()) - at));
    if (end == s.text.size()) break;
    at = end + 1;
  }
  return Value::String(std::move(out));
}

Value IntFilter(Interpreter*, const Value& v, const Arguments& a) {
  if (v.IsNumber()) {
    if (v.IsInteger()) return Value::Int(v.integer());
    if (std::fabs(v.number()) < 9e18) return Value::Int(static_cast<int64_t>(v.number()));
  }
  if (v.IsString()) {
    const Str s = StripChars(v.str(), nullptr, true, true);
    const char* begin = s.text.data() + s.text.starts_with('+');
    const char* end = s.text.data() + s.text.size();
    int64_t i = 0;
    if (std::from_chars(begin, end, i).ptr == end && begin < end) return Value::Int(i);
    double d = 0;
    if (std::from_chars(begin, end, d).ptr == end && begin < end && std::fabs(d) < 9e18)
      return Value::Int(static_cast<int64_t>(d));
  }
  return a.Get(0, "default", Value::Int(0));
}

Value FloatFilter(Interpreter*, const Value& v, const Arguments& a) {
  if (v.IsNumber()) return Value::Float(v.number());
  if (v.IsString()) {
    const Str s = StripChars(v.str(), nullptr, true, true);
    double d = 0;
    const char* end = s.text.data() + s.text.size();
    if (!s.text.empty() && std::from_chars(s.text.data(), end, d).ptr == end) return Value::Float(d);
  }
  return a.Get(0, "default", Value::Float(0));
}

Value Round(Interpreter*, const Value& v, const Arguments& a) {
  const int64_t digits = a.Get(0, "precision", Value::Int(0)).integer();
  const std::string method = ToText(a.Get(1, "method", Value::String("common"))).text;
  if (!v.IsNumber()) throw TemplateError{"round needs a number"};
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<int64_t>(digits, -15, 15)));
  const double x = v.number() * scale;
  const double r = method == "ceil" ? std::ceil(x) : method == "floor" ? std::floor(x) : std::nearbyint(x);
  return Value::Float(r / scale);
}

Value Sum(Interpreter* i, const Value& v, const Arguments& a) {
  const Value attribute = a.Get(0, "attribute", Value::None());
  Value total = a.Get(1, "start", Value::Int(0));
  for (const Value& item : ToList(v)) {
    const Value x = attribute.Is(V::kNone) ? item : Dig(i, item, attribute);
    if (!x.IsNumber() || !total.IsNumber()) throw TemplateError{"sum needs numbers"};
    int64_t sum = 0;
    if (x.IsInteger() && total.IsInteger() && !__builtin_add_overflow(x.integer(), total.integer(), &sum)) {
      total = Value::Int(sum);
    } else {
      total = Value::Float(x.number() + total.number());
    }
  }
  return total;
}

Value Extreme(Interpreter* i, const Value& v, const Arguments& a, bool largest) {
  const List items =
      SortedBy(i, ToList(v), a.Get(1, "attribute"), a.Get(0, "case_sensitive", Value::Bool(false)).Truth(), largest);
  return items.empty() ? Value::Undefined("No aggregated item, sequence was empty.") : items.front();
}

Value Unique(Interpreter* i, const Value& v, const Arguments& a) {
  const bool sensitive = a.Get(0, "case_sensitive", Value::Bool(false)).Truth();
  const Value attribute = a.Get(1, "attribute");
  List out;
  List seen;
  for (const Value& item : ToList(v)) {
    Value key = Folded(attribute.Is(V::kUndefined) ? item : Dig(i, item, attribute), sensitive);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return s.Equals(key); })) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::MakeList(std::move(out));
}

Value DictSort(Interpreter*, const Value& v, const Arguments& a) {
  if (!v.Is(V::kDict)) throw TemplateError{"dictsort needs a dict"};
  const bool sensitive = a.Get(0, "case_sensitive", Value::Bool(false)).Truth();
  const bool by_value = ToText(a.Get(1, "by", Value::String("key"))).text == "value";
  const bool reverse = a.Get(2, "reverse", Value::Bool(false)).Truth();
  Dict items = v.dict();
  std::stable_sort(items.begin(), items.end(), [&](const auto& x, const auto& y) {
    const Value p = Folded(by_value ? x.second : x.first, sensitive);
    const Value q = Folded(by_value ? y.second : y.first, sensitive);
    return reverse ? q.Compare(p) < 0 : p.Compare(q) < 0;
  });
  List out;
  for (auto& [key, value] : items) out.push_back(Pair(key, value));
  return Value::MakeList(std::move(out));
}

Value GroupBy(Interpreter* i, const Value& v, const Arguments& a) {
  const Value attribute = a.Get(0, "attribute");
  List groups;
  List current;
  Value key;
  const auto flush = [&] {
    if (current.empty()) return;
    groups.push_back(Pair(key, Value::MakeList(std::move(current))));
    current.clear();
  };
  for (const Value& item : SortedBy(i, ToList(v), attribute, false, false)) {
    const Value k = Dig(i, item, attribute);
    if (!current.empty() && !Folded(k, false).Equals(Folded(key, false))) flush();
    if (current.empty()) key = k;
    current.push_back(item);
  }
  flush();
  return Value::MakeList(std::move(groups));
}

Value Batch(Interpreter*, const Value& v, const Arguments& a) {
  const int64_t size = std::max<int64_t>(a.Get(0, "linecount").integer(), 1);
  const Value* fill = a.Find(1, "fill_with");
  List out;
  List row;
  for (const Value& item : ToList(v)) {
    row.push_back(item);
    if (static_cast<int64_t>(row.size()) == size) out.push_back(Value::MakeList(std::move(row)));
    if (static_cast<int64_t>(row.size()) >= size || (!out.empty() && row.empty())) row.clear();
  }
  while (!row.empty() && fill != nullptr && static_cast<int64_t>(row.size()) < std::min<int64_t>(size, 1 << 16))
    row.push_back(*fill);
  if (!row.empty()) out.push_back(Value::MakeList(std::move(row)));
  return Value::MakeList(std::move(out));
}

Str Escape(const Str& s) {
  Str out;
  for (size_t at = 0; at < s.text.size(); ++at) {
    const char c = s.text[at];
    const char* escape = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : nullptr;
    out.Append(escape != nullptr ? Str::Own(escape) : s.Sub(at, 1));
  }
  return out;
}

Value Reverse(Interpreter*, const Value& v, const Arguments&) {
  List items = ToList(v);
  std::reverse(items.begin(), items.end());
  if (!v.IsString()) return Value::MakeList(std::move(items));
  Str s;
  for (const Value& c : items) s.Append(c.str());
  return Value::String(std::move(s));
}

Value Sorted(Interpreter* i, const Value& v, const Arguments& a) {
  const bool reverse = a.Get(0, "reverse", Value::Bool(false)).Truth();
  const bool sensitive = a.Get(1, "case_sensitive", Value::Bool(false)).Truth();
  return Value::MakeList(SortedBy(i, ToList(v), a.Get(2, "attribute"), sensitive, reverse));
}

Value ByMethod(const char* name, const Value& v, const Arguments& a) {
  return Method(Value::String(ToText(v)), name).function()(a);
}

const std::map<std::string, Filter, std::less<>>& Filters() {
#define FILTER(body)                                                \
  [](Interpreter* i, const Value& v, const Arguments& a) -> Value { \
    (void)i;                                                        \
    (void)v;                                                        \
    (void)a;                                                        \
    body                                                            \
  }
  static const auto* table = new std::map<std::string, Filter, std::less<>>{
      {"abs",
       FILTER(return v.Is(V::kFloat) ? Value::Float(std::fabs(v.number()))
                                     : Value::Int(v.integer() < 0 && v.integer() != INT64_MIN ? -v.integer() : v.integer());)},
      {"attr", FILTER(return i->GetItem(v, a.Get(0, "name"));)},
      {"batch", Batch},
      {"capitalize", FILTER(return ByMethod("capitalize", v, a);)},
      {"count", FILTER(return Value::Int(CountOf(v));)},
      {"d", Default},
      {"default", Default},
      {"dictsort", DictSort},
      {"e", FILTER(return Value::String(Escape(ToText(v)));)},
      {"escape", FILTER(return Value::String(Escape(ToText(v)));)},
      {"first",
       FILTER(const List l = ToList(v); return l.empty() ? Value::Undefined("No first item, sequence was empty.") : l.front();)},
      {"float", FloatFilter},
      {"format", FILTER(return Value::String(FormatPercent(ToText(v), a.positional));)},
      {"groupby", GroupBy},
      {"indent", Indent},
      {"int", IntFilter},
      {"items", FILTER(return v.Is(V::kUndefined) ? Value::MakeList({}) : Method(v, "items").function()({});)},
      {"join", Join},
      {"last",
       FILTER(const List l = ToList(v); return l.empty() ? Value::Undefined("No last item, sequence was empty.") : l.back();)},
      {"length", FILTER(return Value::Int(CountOf(v));)},
      {"list", FILTER(return Value::MakeList(ToList(v));)},
      {"lower", FILTER(return ByMethod("lower", v, a);)},
      {"map", MapFilter},
      {"max", FILTER(return Extreme(i, v, a, true);)},
      {"min", FILTER(return Extreme(i, v, a, false);)},
      {"reject", FILTER(return Selected(i, v, a, false, false);)},
      {"rejectattr", FILTER(return Selected(i, v, a, true, false);)},
      {"replace", FILTER(return ByMethod("replace", v, a);)},
      {"reverse", Reverse},
      {"round", Round},
      {"safe", FILTER(return v;)},
      {"select", FILTER(return Selected(i, v, a, false, true);)},
      {"selectattr", FILTER(return Selected(i, v, a, true, true);)},
      {"sort", Sorted},
      {"string", FILTER(return Value::String(ToText(v));)},
      {"sum", Sum},
      {"title", FILTER(return ByMethod("title", v, a);)},
      {"tojson", ToJsonFilter},
      {"trim", FILTER(return ByMethod("strip", v, a);)},
      {"unique", Unique},
      {"upper", FILTER(return ByMethod("upper", v, a);)},
      {"wordcount", FILTER(return Value::Int(CountOf(Method(Value::String(ToText(v)), "split").function()({})));)},
  };
#undef FILTER
  return *table;
}

const std::map<std::string, Test, std::less<>>& Tests() {
#define TEST_OF(expression)                                        \
  [](Interpreter* i, const Value& v, const Arguments& a) -> bool { \
    (void)i;                                                       \
    (void)v;                                                       \
    (void)a;                                                       \
    return expression;                                             \
  }
  static const auto* table = new std::map<std::string, Test, std::less<>>{
      {"boolean", TEST_OF(v.Is(V::kBool))},
      {"callable", TEST_OF(v.Is(V::kFunction))},
      {"defined", TEST_OF(!v.Is(V::kUndefined))},
      {"divisibleby", TEST_OF(a.Get(0, "num").integer() != 0 && v.integer() % a.Get(0, "num").integer() == 0)},
      {"equalto", TEST_OF(v.Equals(a.Get(0, "other")))},
      {"eq", TEST_OF(v.Equals(a.Get(0, "other")))},
      {"==", TEST_OF(v.Equals(a.Get(0, "other")))},
      {"ne", TEST_OF(!v.Equals(a.Get(0, "other")))},
      {"!=", TEST_OF(!v.Equals(a.Get(0, "other")))},
      {"even", TEST_OF(v.integer() % 2 == 0)},
      {"odd", TEST_OF(v.integer() % 2 != 0)},
      {"false", TEST_OF(v.Is(V::kBool) && v.integer() == 0)},
      {"true", TEST_OF(v.Is(V::kBool) && v.integer() != 0)},
      {"float", TEST_OF(v.Is(V::kFloat))},
      {"integer", TEST_OF(v.Is(V::kInt))},
      {"number", TEST_OF(v.IsNumber())},
      {"ge", TEST_OF(v.Compare(a.Get(0, "other")) >= 0)},
      {"gt", TEST_OF(v.Compare(a.Get(0, "other")) > 0)},
      {"greaterthan", TEST_OF(v.Compare(a.Get(0, "other")) > 0)},
      {"le", TEST_OF(v.Compare(a.Get(0, "other")) <= 0)},
      {"lt", TEST_OF(v.Compare(a.Get(0, "other")) < 0)},
      {"lessthan", TEST_OF(v.Compare(a.Get(0, "other")) < 0)},
      {"in", TEST_OF(Contains(a.Get(0, "seq"), v))},
      {"iterable", TEST_OF(v.IsString() || v.IsList() || v.Is(V::kDict) || v.Is(V::kUndefined))},
      {"lower", TEST_OF(v.IsString() && IsCased(v.text(), false))},
      {"upper", TEST_OF(v.IsString() && IsCased(v.text(), true))},
      {"mapping", TEST_OF(v.Is(V::kDict))},
      {"none", TEST_OF(v.Is(V::kNone))},
      {"sameas", TEST_OF(v.kind() == a.Get(0, "other").kind() && v.Equals(a.Get(0, "other")))},
      {"sequence", TEST_OF(v.IsString() || v.IsList() || v.Is(V::kDict) || v.Is(V::kUndefined))},
      {"string", TEST_OF(v.IsString())},
      {"undefined", TEST_OF(v.Is(V::kUndefined))},
      {"filter", TEST_OF(v.IsString() && Filters().contains(v.text()))},
  };
#undef TEST_OF
  return *table;
}

}  // namespace

Value Interpreter::ApplyFilter(const std::string& name, const Value& object, const Arguments& arguments) {
  if (++steps_ > limits_.steps) throw TemplateError{"more than " + std::to_string(limits_.steps) + " steps", 0, true};
  const auto it = Filters().find(name);
  if (it == Filters().end()) throw TemplateError{"no filter named '" + name + "'"};
  return it->second(this, object, arguments);
}

bool Interpreter::ApplyTest(const std::string& name, const Value& object, const Arguments& arguments) {
  if (++steps_ > limits_.steps) throw TemplateError{"more than " + std::to_string(limits_.steps) + " steps", 0, true};
  const auto it = Tests().find(name);
  if (it == Tests().end()) throw TemplateError{"no test named '" + name + "'"};
  return it->second(this, object, arguments);
}

}  // namespace tenon::text
