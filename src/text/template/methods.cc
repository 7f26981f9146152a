// Methods of strings, lists and dicts, and the global functions.
#include <algorithm>
#include <ctime>
#include <map>

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include "text/template/interpreter.h"
#include "text/template/strings.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

using V = Value::Kind;
using StringMethod = Value (*)(const Str&, const Arguments&);

const std::string& TextArgument(const Arguments& a, size_t position, const char* name) {
  const Value* v = a.Find(position, name);
  if (v == nullptr || !v->IsString())
    throw TemplateError{std::string("argument ") + std::to_string(position + 1) + " must be str"};
  return v->text();
}

// The characters to strip, null: white space.
const std::string* Chars(const Arguments& a) {
  const Value* v = a.Find(0, "chars");
  if (v == nullptr || v->Is(V::kNone)) return nullptr;
  if (!v->IsString()) throw TemplateError{"strip arg must be None or str"};
  return &v->text();
}

Value StripMethod(const Str& s, const Arguments& a, bool left, bool right) {
  return Value::String(StripChars(s, Chars(a), left, right));
}

Value SplitBlanks(const Str& s, int64_t limit, bool from_right) {
  std::vector<std::pair<size_t, size_t>> words;
  size_t begin = 0;
  bool in_word = false;
  ForEachChar(s.text, [&](char32_t c, size_t at, size_t) {
    const bool space = IsSpace(c) || (c >= 0x1C && c <= 0x1F);
    if (!space && !in_word) begin = at;
    if (space && in_word) words.emplace_back(begin, at);
    in_word = !space;
  });
  if (in_word) words.emplace_back(begin, s.text.size());
  const auto n = static_cast<int64_t>(words.size());
  List out;
  if (limit < 0 || n <= limit) {
    for (const auto& [b, e] : words) out.push_back(Value::String(s.Sub(b, e - b)));
  } else if (from_right) {
    const auto& last = words[static_cast<size_t>(n - limit - 1)];
    if (n > limit) out.push_back(Value::String(StripChars(s.Sub(0, last.second), nullptr, false, true)));
    for (int64_t i = n - limit; i < n; ++i)
      out.push_back(Value::String(s.Sub(words[static_cast<size_t>(i)].first,
                                        words[static_cast<size_t>(i)].second - words[static_cast<size_t>(i)].first)));
  } else {
    for (int64_t i = 0; i < limit; ++i)
      out.push_back(Value::String(s.Sub(words[static_cast<size_t>(i)].first,
                                        words[static_cast<size_t>(i)].second - words[static_cast<size_t>(i)].first)));
    const size_t b = words[static_cast<size_t>(limit)].first;
    out.push_back(Value::String(s.Sub(b, s.text.size() - b)));
  }
  return Value::MakeList(std::move(out));
}

Value SplitMethod(const Str& s, const Arguments& a, bool from_right) {
  const Value separator = a.Get(0, "sep", Value::None());
  const int64_t limit = a.Get(1, "maxsplit", Value::Int(-1)).integer();
  if (separator.Is(V::kNone)) return SplitBlanks(s, limit, from_right);
  if (!separator.IsString() || separator.text().empty()) throw TemplateError{"empty separator"};
  const std::string& mark = separator.text();
  List out;
  if (from_right) {
    size_t end = s.text.size();
    for (int64_t k = 0; k != limit; ++k) {
      const size_t at = end < mark.size() ? std::string::npos : s.text.rfind(mark, end - mark.size());
      if (at == std::string::npos) break;
      out.push_back(Value::String(s.Sub(at + mark.size(), end - at - mark.size())));
      end = at;
    }
    out.push_back(Value::String(s.Sub(0, end)));
    std::reverse(out.begin(), out.end());
    return Value::MakeList(std::move(out));
  }
  size_t begin = 0;
  for (int64_t k = 0; k != limit; ++k) {
    const size_t at = s.text.find(mark, begin);
    if (at == std::string::npos) break;
    out.push_back(Value::String(s.Sub(begin, at - begin)));
    begin = at + mark.size();
  }
  out.push_back(Value::String(s.Sub(begin, s.text.size() - begin)));
  return Value::MakeList(std::move(out));
}

Value SplitLines(const Str& s, const Arguments& a) {
  const bool keep = a.Get(0, "keepends", Value::Bool(false)).Truth();
  List out;
  size_t begin = 0;
  while (begin < s.text.size()) {
    const size_t end = std::min(s.text.find_first_of("\n\r\v\f\x1c\x1d\x1e", begin), s.text.size());
    const size_t next = end == s.text.size() ? end : end + (s.text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    out.push_back(Value::String(s.Sub(begin, (keep ? next : end) - begin)));
    begin = next;
  }
  return Value::MakeList(std::move(out));
}

// startswith and endswith take a text or a tuple of them.
bool Edge(const Str& s, const Arguments& a, bool start) {
  const Value v = a.Get(0, "prefix");
  const auto one = [&](const Value& x) {
    if (!x.IsString())
      throw TemplateError{std::string(start ? "startswith" : "endswith") + " first arg must be str or a tuple of str"};
    return start ? s.text.starts_with(x.text()) : s.text.ends_with(x.text());
  };
  return v.Is(V::kTuple) ? std::any_of(v.list().begin(), v.list().end(), one) : one(v);
}

Value FindMethod(const Str& s, const Arguments& a, bool right, bool must) {
  const std::string& what = TextArgument(a, 0, "sub");
  const size_t at = right ? s.text.rfind(what) : s.text.find(what);
  if (at == std::string::npos && must) throw TemplateError{"substring not found"};
  return Value::Int(at == std::string::npos ? -1 : static_cast<int64_t>(CountChars(std::string_view(s.text).substr(0, at))));
}

Value CountMethod(const Str& s, const Arguments& a) {
  const std::string& what = TextArgument(a, 0, "sub");
  if (what.empty()) return Value::Int(static_cast<int64_t>(Length(s)) + 1);
  int64_t n = 0;
  for (size_t at = s.text.find(what); at != std::string::npos; at = s.text.find(what, at + what.size())) ++n;
  return Value::Int(n);
}

Value ReplaceMethod(const Str& s, const Arguments& a) {
  const Value from = a.Get(0, "old");
  const Value to = a.Get(1, "new");
  if (from.Is(V::kUndefined) || to.Is(V::kUndefined)) throw TemplateError{"replace needs two texts"};
  const Value count = a.Get(2, "count", Value::Int(-1));
  return Value::String(Replace(s, ToText(from), ToText(to), count.IsInteger() ? count.integer() : -1));
}

Value JoinMethod(const Str& s, const Arguments& a) {
  Str out;
  bool first = true;
  for (const Value& v : ToList(a.Get(0, "iterable"))) {
    if (!v.IsString()) throw TemplateError{std::string("sequence item: expected str instance, ") + v.TypeName() + " found"};
    if (!first) out.Append(s);
    first = false;
    out.Append(v.str());
  }
  return Value::String(std::move(out));
}

Value Partition(const Str& s, const Arguments& a, bool right) {
  const std::string& mark = TextArgument(a, 0, "sep");
  if (mark.empty()) throw TemplateError{"empty separator"};
  const size_t at = right ? s.text.rfind(mark) : s.text.find(mark);
  if (at == std::string::npos) {
    Value whole = Value::String(s);
    Value none = Value::String("");
    return right ? Value::MakeList({none, none, whole}, true) : Value::MakeList({whole, none, none}, true);
  }
  return Value::MakeList(
      {Value::String(s.Sub(0, at)), Value::String(s.Sub(at, mark.size())), Value::String(s.Sub(at + mark.size(), s.text.size()))},
      true);
}

// str.title and str.capitalize: a letter after a letter is small.
Str Titled(const Str& s, bool each_word) {
  std::string out;
  bool after_letter = false;
  bool first = true;
  ForEachChar(s.text, [&](char32_t c, size_t at, size_t n) {
    const std::string one = s.text.substr(at, n);
    const bool small = each_word ? after_letter : !first;
    out += small ? FullLower(one) : FullUpper(one);
    after_letter = u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED) != 0;
    first = false;
  });
  return Str::Like(std::move(out), s);
}

bool AllChars(const Str& s, bool (*is)(char32_t)) {
  bool all = !s.text.empty();
  ForEachChar(s.text, [&](char32_t c, size_t, size_t) { all = all && is(c); });
  return all;
}

// {} and {0} and {name} without format specifications.
Value FormatBraces(const Str& s, const Arguments& a) {
  Str out;
  size_t next = 0;
  for (size_t at = 0; at < s.text.size();) {
    const char c = s.text[at];
    if ((c == '{' || c == '}') && s.text.compare(at, 2, std::string(2, c)) == 0) {
      out.Append(s.Sub(at, 1));
      at += 2;
      continue;
    }
    const size_t close = c == '{' ? s.text.find('}', at) : std::string::npos;
    if (c != '{') {
      out.Append(s.Sub(at++, 1));
      continue;
    }
    if (close == std::string::npos) throw TemplateError{"expected '}' before end of string"};
    const std::string name = s.text.substr(at + 1, close - at - 1);
    if (name.find_first_of(":!.[") != std::string::npos) throw TemplateError{"format specifications are not supported"};
    const bool number = name.find_first_not_of("0123456789") == std::string::npos && name.size() < 6;
    const Value* v = number ? a.Find(name.empty() ? next++ : static_cast<size_t>(std::stoul(name)), "") : a.Find(SIZE_MAX, name);
    if (v == nullptr) throw TemplateError{"nothing given for '{" + name + "}'"};
    out.Append(ToText(*v));
    at = close + 1;
  }
  return Value::String(std::move(out));
}

Value Zfill(const Str& s, const Arguments& a) {
  const int64_t missing = std::min<int64_t>(a.Get(0, "width").integer(), 10000) - static_cast<int64_t>(Length(s));
  if (missing <= 0) return Value::String(s);
  const size_t sign = s.text.starts_with('-') || s.text.starts_with('+');
  Str out = s.Sub(0, sign);
  out.Append(Str::Own(std::string(static_cast<size_t>(missing), '0')));
  out.Append(s.Sub(sign, s.text.size()));
  return Value::String(std::move(out));
}

Value RemoveEdge(const Str& s, const Arguments& a, bool prefix) {
  const std::string& what = TextArgument(a, 0, "prefix");
  if (prefix && s.text.starts_with(what)) return Value::String(s.Sub(what.size(), s.text.size()));
  if (!prefix && s.text.ends_with(what)) return Value::String(s.Sub(0, s.text.size() - what.size()));
  return Value::String(s);
}

const std::map<std::string, StringMethod, std::less<>>& StringMethods() {
#define METHOD(expression)                        \
  [](const Str& s, const Arguments& a) -> Value { \
    (void)a;                                      \
    return expression;                            \
  }
  static const auto* table = new std::map<std::string, StringMethod, std::less<>>{
      {"strip", METHOD(StripMethod(s, a, true, true))},
      {"lstrip", METHOD(StripMethod(s, a, true, false))},
      {"rstrip", METHOD(StripMethod(s, a, false, true))},
      {"split", METHOD(SplitMethod(s, a, false))},
      {"rsplit", METHOD(SplitMethod(s, a, true))},
      {"splitlines", SplitLines},
      {"startswith", METHOD(Value::Bool(Edge(s, a, true)))},
      {"endswith", METHOD(Value::Bool(Edge(s, a, false)))},
      {"replace", ReplaceMethod},
      {"upper", METHOD(Value::String(Str::Like(FullUpper(s.text), s)))},
      {"lower", METHOD(Value::String(Str::Like(FullLower(s.text), s)))},
      {"title", METHOD(Value::String(Titled(s, true)))},
      {"capitalize", METHOD(Value::String(Titled(s, false)))},
      {"find", METHOD(FindMethod(s, a, false, false))},
      {"rfind", METHOD(FindMethod(s, a, true, false))},
      {"index", METHOD(FindMethod(s, a, false, true))},
      {"count", CountMethod},
      {"join", JoinMethod},
      {"format", FormatBraces},
      {"partition", METHOD(Partition(s, a, false))},
      {"rpartition", METHOD(Partition(s, a, true))},
      {"removeprefix", METHOD(RemoveEdge(s, a, true))},
      {"removesuffix", METHOD(RemoveEdge(s, a, false))},
      {"zfill", Zfill},
      {"isdigit", METHOD(Value::Bool(AllChars(s, [](char32_t c) { return u_isdigit(static_cast<UChar32>(c)) != 0; })))},
      {"isalpha", METHOD(Value::Bool(AllChars(s, [](char32_t c) { return u_isalpha(static_cast<UChar32>(c)) != 0; })))},
      {"isalnum", METHOD(Value::Bool(AllChars(s, [](char32_t c) { return u_isalnum(static_cast<UChar32>(c)) != 0; })))},
      {"isspace", METHOD(Value::Bool(AllChars(s, IsSpace)))},
      {"isupper", METHOD(Value::Bool(IsCased(s.text, true)))},
      {"islower", METHOD(Value::Bool(IsCased(s.text, false)))},
  };
#undef METHOD
  return *table;
}

Value DictMethod(const Value& dict, const std::string& name) {
  if (name == "items" || name == "keys" || name == "values") {
    return Value::MakeFunction([dict, name](const Arguments&) {
      List out;
      for (const auto& [key, value] : dict.dict()) {
        out.push_back(name == "items" ? Value::MakeList({key, value}, true) : name == "keys" ? key : value);
      }
      return Value::MakeList(std::move(out));
    });
  }
  if (name == "get") {
    return Value::MakeFunction([dict](const Arguments& a) {
      const Value key = a.Get(0, "key");
      for (const auto& [k, v] : dict.dict()) {
        if (k.Equals(key)) return v;
      }
      return a.Get(1, "default", Value::None());
    });
  }
  return Value();
}

Value ListMethod(const Value& list, const std::string& name) {
  if (name == "count" || name == "index") {
    return Value::MakeFunction([list, name](const Arguments& a) {
      const Value what = a.Get(0, "value");
      int64_t n = 0;
      for (size_t i = 0; i < list.list().size(); ++i) {
        if (!list.list()[i].Equals(what)) continue;
        if (name == "index") return Value::Int(static_cast<int64_t>(i));
        ++n;
      }
      if (name == "index") throw TemplateError{"the value is not in the list"};
      return Value::Int(n);
    });
  }
  if (name == "append" || name == "extend" || name == "insert" || name == "pop" || name == "remove" || name == "clear") {
    return Value::MakeFunction([name](const Arguments&) -> Value {
      throw TemplateError{"access to attribute '" + name + "' of 'list' object is unsafe."};
    });
  }
  return Value();
}

Value Range(const Arguments& a) {
  const size_t n = a.positional.size();
  if (n < 1 || n > 3) throw TemplateError{"range takes 1 to 3 arguments"};
  for (const Value& v : a.positional) {
    if (!v.IsInteger()) throw TemplateError{std::string("'") + v.TypeName() + "' object cannot be interpreted as an integer"};
  }
  const int64_t start = n > 1 ? a.positional[0].integer() : 0;
  const int64_t stop = a.positional[n > 1 ? 1 : 0].integer();
  const int64_t step = n > 2 ? a.positional[2].integer() : 1;
  if (step == 0) throw TemplateError{"range() arg 3 must not be zero"};
  constexpr size_t kMax = 100000;
  List out;
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (out.size() == kMax)
      throw TemplateError{"Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).", 0, true};
    out.push_back(Value::Int(static_cast<int64_t>(i)));
  }
  return Value::MakeList(std::move(out));
}

Value MakeNamespace(const Arguments& a, bool is_namespace) {
  const Value dict = Value::MakeDict({}, is_namespace);
  if (!a.positional.empty() && a.positional[0].IsDict()) {
    for (const auto& [key, value] : a.positional[0].dict()) dict.Set(key, value);
  } else if (!a.positional.empty()) {
    for (const Value& pair : ToList(a.positional[0])) {
      const List two = ToList(pair);
      if (two.size() != 2) throw TemplateError{"dict needs pairs"};
      dict.Set(two[0], two[1]);
    }
  }
  for (const auto& [name, value] : a.named) dict.Set(Value::String(name), value);
  return dict;
}

Value Joiner(const Arguments& a) {
  const Value separator = a.Get(0, "sep", Value::String(", "));
  auto used = std::make_shared<bool>(false);
  return Value::MakeFunction([separator, used](const Arguments&) {
    const bool first = !*used;
    *used = true;
    return first ? Value::String("") : separator;
  });
}

Value Cycler(const Arguments& a) {
  if (a.positional.empty()) throw TemplateError{"at least one item has to be provided"};
  auto at = std::make_shared<size_t>(0);
  const List items = a.positional;
  return Value::MakeDict(
      {{Value::String("next"), Value::MakeFunction([items, at](const Arguments&) { return items[(*at)++ % items.size()]; })}});
}

Value StrftimeNow(const Arguments& a) {
  const std::string& format = TextArgument(a, 0, "format");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256] = "";
  const size_t n = std::strftime(text, sizeof(text), format.c_str(), &local);
  return Value::String(std::string(text, n));
}

}  // namespace

std::string FullUpper(std::string_view s) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8ToUpper("", 0, icu::StringPiece(s.data(), static_cast<int32_t>(s.size())), sink, nullptr, error);
  return out;
}

std::string FullLower(std::string_view s) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(s.data(), static_cast<int32_t>(s.size())), sink, nullptr, error);
  return out;
}

bool IsCased(std::string_view s, bool upper) {
  bool any = false;
  bool other = false;
  ForEachChar(s, [&](char32_t c, size_t, size_t) {
    const auto u = static_cast<UChar32>(c);
    any = any || (upper ? u_isUUppercase(u) : u_isULowercase(u)) != 0;
    other = other || (upper ? u_isULowercase(u) : u_isUUppercase(u)) != 0 || u_istitle(u) != 0;
  });
  return any && !other;
}

Value Method(const Value& object, const std::string& name) {
  if (object.IsString()) {
    const auto it = StringMethods().find(name);
    if (it == StringMethods().end()) return Value();
    return Value::MakeFunction([object, method = it->second](const Arguments& a) { return method(object.str(), a); });
  }
  if (object.Is(V::kDict)) return DictMethod(object, name);
  if (object.IsList()) return ListMethod(object, name);
  return Value();
}

Str FormatPercent(const Str& format, const List& values) {
  Str out;
  size_t next = 0;
  for (size_t at = 0; at < format.text.size(); ++at) {
    if (format.text[at] != '%') {
      out.Append(format.Sub(at, 1));
      continue;
    }
    std::string spec = "%";
    while (++at < format.text.size() && std::string_view("0123456789.-+ #").find(format.text[at]) != std::string_view::npos)
      spec += format.text[at];
    if (at >= format.text.size() || spec.size() > 8) throw TemplateError{"incomplete format"};
    const char kind = format.text[at];
    if (kind == '%') {
      out.Append(Str::Own("%"));
      continue;
    }
    if (next >= values.size()) throw TemplateError{"not enough arguments for format string"};
    const Value& v = values[next++];
    if (kind == 's' || kind == 'r') {
      if (spec != "%") throw TemplateError{"widths of %s are not supported"};
      out.Append(kind == 's' ? ToText(v) : ToRepr(v));
      continue;
    }
    if (!v.IsNumber()) throw TemplateError{std::string("%") + kind + " format: a real number is required, not " + v.TypeName()};
    char text[512] = "";
    if (kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X' || kind == 'o') {
      const auto i = v.IsInteger() ? v.integer() : static_cast<int64_t>(std::clamp(v.number(), -9e18, 9e18));
      std::snprintf(text, sizeof(text), (spec + "l" + kind).c_str(), i);
    } else if (std::string_view("fFeEgG").find(kind) != std::string_view::npos) {
      std::snprintf(text, sizeof(text), (spec + kind).c_str(), v.number());
    } else {
      throw TemplateError{std::string("unsupported format character '") + kind + "'"};
    }
    out.Append(Str::Own(text));
  }
  if (next < values.size()) throw TemplateError{"not all arguments converted during string formatting"};
  return out;
}

void AddGlobals(Scope* scope) {
  scope->Set("range", Value::MakeFunction(Range));
  scope->Set("dict", Value::MakeFunction([](const Arguments& a) { return MakeNamespace(a, false); }));
  scope->Set("namespace", Value::MakeFunction([](const Arguments& a) { return MakeNamespace(a, true); }));
  scope->Set("joiner", Value::MakeFunction(Joiner));
  scope->Set("cycler", Value::MakeFunction(Cycler));
  scope->Set("strftime_now", Value::MakeFunction(StrftimeNow));
  scope->Set("raise_exception",
             Value::MakeFunction([](const Arguments& a) -> Value { throw TemplateError{ToText(a.Get(0, "message")).text}; }));
}

}  // namespace tenon::text
