// Values: construction, truth, order, access.
#include "text/template/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/unicode.h"

namespace tenon::text {

void Str::Append(const Str& s) {
  if (!outside.empty() || !s.outside.empty()) {
    outside.resize(text.size(), '\0');
    if (s.outside.empty()) {
      outside.append(s.text.size(), '\0');
    } else {
      outside += s.outside;
    }
  }
  text += s.text;
}

Str Str::Sub(size_t begin, size_t size) const {
  return {text.substr(begin, size), outside.empty() ? "" : outside.substr(begin, size)};
}

Str Str::Like(std::string text, const Str& from) {
  const size_t n = text.size();
  return {std::move(text), from.AnyOutside() ? std::string(n, '\1') : ""};
}

Value Value::Undefined(std::string name) {
  Value v;
  v.string_ = std::make_shared<Str>(Str::Own(std::move(name)));
  return v;
}
Value Value::Bool(bool b) {
  Value v(Kind::kBool);
  v.integer_ = b;
  return v;
}
Value Value::Int(int64_t i) {
  Value v(Kind::kInt);
  v.integer_ = i;
  return v;
}
Value Value::Float(double d) {
  Value v(Kind::kFloat);
  v.number_ = d;
  return v;
}
Value Value::String(Str s) {
  Value v(Kind::kString);
  v.string_ = std::make_shared<Str>(std::move(s));
  return v;
}
Value Value::MakeList(List items, bool tuple) {
  Value v(tuple ? Kind::kTuple : Kind::kList);
  v.list_ = std::make_shared<List>(std::move(items));
  return v;
}
Value Value::MakeDict(Dict items, bool is_namespace) {
  Value v(is_namespace ? Kind::kNamespace : Kind::kDict);
  v.dict_ = std::make_shared<Dict>(std::move(items));
  return v;
}
Value Value::MakeFunction(Function f) {
  Value v(Kind::kFunction);
  v.function_ = std::make_shared<Function>(std::move(f));
  return v;
}

bool Value::Truth() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kFloat: return number_ != 0;
    case Kind::kString: return !text().empty();
    case Kind::kList:
    case Kind::kTuple: return !list().empty();
    case Kind::kDict: return !dict().empty();
    case Kind::kNamespace:
    case Kind::kFunction: return true;
    default: return integer_ != 0;
  }
}

bool Value::Equals(const Value& o) const {
  if (IsNumber() && o.IsNumber()) return IsInteger() && o.IsInteger() ? integer_ == o.integer_ : number() == o.number();
  if (kind_ != o.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString: return text() == o.text();
    case Kind::kList:
    case Kind::kTuple:
      return std::equal(list().begin(), list().end(), o.list().begin(), o.list().end(),
                        [](const Value& a, const Value& b) { return a.Equals(b); });
    case Kind::kDict:
      return dict().size() == o.dict().size() && std::all_of(dict().begin(), dict().end(), [&](const auto& entry) {
               return std::any_of(o.dict().begin(), o.dict().end(), [&](const auto& other) {
                 return other.first.Equals(entry.first) && other.second.Equals(entry.second);
               });
             });
    default: return identity() == o.identity();
  }
}

int Value::Compare(const Value& o) const {
  if (IsNumber() && o.IsNumber()) {
    if (IsInteger() && o.IsInteger()) return integer_ < o.integer_ ? -1 : integer_ > o.integer_;
    return number() < o.number() ? -1 : number() > o.number();
  }
  if (IsString() && o.IsString()) {
    const int c = text().compare(o.text());   // the order of UTF-8 is that of characters
    return c < 0 ? -1 : c > 0;
  }
  if (kind_ == o.kind_ && IsList()) {
    for (size_t i = 0; i < list().size() && i < o.list().size(); ++i) {
      if (!list()[i].Equals(o.list()[i])) return list()[i].Compare(o.list()[i]);
    }
    return list().size() < o.list().size() ? -1 : list().size() > o.list().size();
  }
  throw TemplateError{std::string("'<' not supported between '") + TypeName() + "' and '" + o.TypeName() + "'"};
}

const Value* Value::Get(std::string_view key) const {
  for (const auto& [k, v] : dict()) {
    if (k.IsString() && k.text() == key) return &v;
  }
  return nullptr;
}

void Value::Set(const Value& key, Value value) const {
  for (auto& [k, v] : dict()) {
    if (k.Equals(key)) {
      v = std::move(value);
      return;
    }
  }
  dict().emplace_back(key, std::move(value));
}

const char* Value::TypeName() const {
  static constexpr const char* kNames[] = {"undefined", "NoneType", "bool", "int",       "float",   "str",
                                           "list",      "tuple",    "dict", "namespace", "function"};
  return kNames[static_cast<size_t>(kind_)];
}

const Value* Arguments::Find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [n, v] : named) {
    if (n == name) return &v;
  }
  return nullptr;
}

Value Arguments::Get(size_t position, std::string_view name, Value otherwise) const {
  const Value* v = Find(position, name);
  return v != nullptr ? *v : otherwise;
}

List ToList(const Value& v) {
  if (v.IsList()) return v.list();
  List out;
  if (v.Is(Value::Kind::kDict)) {
    for (const auto& [key, value] : v.dict()) out.push_back(key);
  } else if (v.IsString()) {
    ForEachChar(v.text(), [&](char32_t, size_t at, size_t n) { out.push_back(Value::String(v.str().Sub(at, n))); });
  } else if (!v.Is(Value::Kind::kUndefined)) {
    throw TemplateError{std::string("'") + v.TypeName() + "' object is not iterable"};
  }
  return out;
}

size_t Length(const Str& s) {
  return CountChars(s.text);
}

std::vector<size_t> SlicePositions(size_t size, const int64_t* start, const int64_t* stop, int64_t step) {
  if (step == 0) throw TemplateError{"slice step cannot be zero"};
  const auto n = static_cast<int64_t>(size);
  const auto clamp = [&](int64_t i, int64_t low, int64_t high) {
    return std::clamp(i < 0 ? (i < -n ? low : i + n) : i, low, high);
  };
  std::vector<size_t> out;
  if (step > 0) {
    int64_t i = start != nullptr ? clamp(*start, 0, n) : 0;
    const int64_t end = stop != nullptr ? clamp(*stop, 0, n) : n;
    for (; i < end; i += std::min(step, n + 1)) out.push_back(static_cast<size_t>(i));
  } else {
    int64_t i = start != nullptr ? clamp(*start, -1, n - 1) : n - 1;
    const int64_t end = stop != nullptr ? clamp(*stop, -1, n - 1) : -1;
    for (; i > end; i += std::max(step, -n - 1)) out.push_back(static_cast<size_t>(i));
  }
  return out;
}

Str Slice(const Str& s, const int64_t* start, const int64_t* stop, int64_t step) {
  std::vector<size_t> offsets;
  ForEachChar(s.text, [&](char32_t, size_t at, size_t) { offsets.push_back(at); });
  const std::vector<size_t> positions = SlicePositions(offsets.size(), start, stop, step);
  offsets.push_back(s.text.size());
  if (step == 1) {
    if (positions.empty()) return {};
    return s.Sub(offsets[positions.front()], offsets[positions.back() + 1] - offsets[positions.front()]);
  }
  Str out;
  for (size_t p : positions) out.Append(s.Sub(offsets[p], offsets[p + 1] - offsets[p]));
  return out;
}

Str StripChars(const Str& s, const std::string* chars, bool left, bool right) {
  const auto strip = [&](size_t at, size_t n) {
    return chars == nullptr ? IsSpace(DecodeUtf8(s.text.data() + at)) || (s.text[at] >= 0x1C && s.text[at] <= 0x1F)
                            : chars->find(s.text.substr(at, n)) != std::string::npos;
  };
  size_t begin = 0;
  while (left && begin < s.text.size() && strip(begin, Utf8Length(s.text[begin]))) begin += Utf8Length(s.text[begin]);
  size_t end = s.text.size();
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(s.text[at]) & 0xC0) == 0x80) --at;
    if (!strip(at, end - at)) break;
    end = at;
  }
  return s.Sub(begin, end - begin);
}

Str Replace(const Str& s, const Str& from, const Str& to, int64_t count) {
  Str out;
  size_t done = 0;
  if (from.text.empty()) {   // between all characters
    for (size_t at = 0; at < s.text.size() && count != 0; --count) {
      const size_t n = Utf8Length(s.text[at]);
      out.Append(to);
      out.Append(s.Sub(at, n));
      done = at += n;
    }
    if (count != 0) out.Append(to);
    out.Append(s.Sub(done, s.text.size() - done));
    return out;
  }
  for (size_t at = s.text.find(from.text); at != std::string::npos && count != 0; at = s.text.find(from.text, done), --count) {
    out.Append(s.Sub(done, at - done));
    out.Append(to);
    done = at + from.text.size();
  }
  out.Append(s.Sub(done, s.text.size() - done));
  return out;
}

namespace {

Value FromJson(const nlohmann::ordered_json& j, bool own, int depth) {
  constexpr int kMaxDepth = 100;
  if (depth > kMaxDepth) throw TemplateError{"JSON nested deeper than 100"};
  const auto text = [&](const std::string& s) { return Value::String(Str{s, own ? "" : std::string(s.size(), '\1')}); };
  switch (j.type()) {
    case nlohmann::ordered_json::value_t::boolean: return Value::Bool(j.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
    case nlohmann::ordered_json::value_t::number_unsigned: return Value::Int(j.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float: return Value::Float(j.get<double>());
    case nlohmann::ordered_json::value_t::string: return text(j.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      List items;
      for (const auto& item : j) items.push_back(FromJson(item, own, depth + 1));
      return Value::MakeList(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict items;
      for (const auto& [key, item] : j.items()) items.emplace_back(text(key), FromJson(item, own, depth + 1));
      return Value::MakeDict(std::move(items));
    }
    default: return Value::None();
  }
}

}  // namespace

Value ValueFromJson(std::string_view json, bool own) {
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
  if (parsed.is_discarded()) throw TemplateError{"the variables are no JSON"};
  return FromJson(parsed, own, 0);
}

}  // namespace tenon::text
