// str, repr and json.dumps as Python has them.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/template/value.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr int kMaxDepth = 200;

// Python's repr of a float: the shortest digits; an exponent below 1e-4 and from 1e16 on.
std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(d);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end = exponent ? std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::scientific)
                            : std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::fixed);
  std::string s(buffer, end.ptr);
  if (!exponent && s.find('.') == std::string::npos) s += ".0";
  return s;
}

// A string between quotes, as repr writes it.
Str Quoted(const Str& s) {
  const bool single = s.text.find('\'') == std::string::npos || s.text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  Str out = Str::Own(std::string(1, quote));
  ForEachChar(s.text, [&](char32_t c, size_t at, size_t n) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string escape;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      escape = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD) {
      escape = {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
    out.Append(escape.empty() ? s.Sub(at, n) : Str::Own(escape));
  });
  out.Append(Str::Own(std::string(1, quote)));
  return out;
}

Str Repr(const Value& v, int depth) {
  if (depth > kMaxDepth) throw TemplateError{"a value nested too deep to print", 0, true};
  using K = Value::Kind;
  switch (v.kind()) {
    case K::kUndefined: return Str::Own("Undefined");
    case K::kNone: return Str::Own("None");
    case K::kBool: return Str::Own(v.integer() != 0 ? "True" : "False");
    case K::kInt: return Str::Own(std::to_string(v.integer()));
    case K::kFloat: return Str::Own(FloatText(v.number()));
    case K::kString: return Quoted(v.str());
    case K::kFunction: return Str::Own("<function>");
    default: break;
  }
  const bool tuple = v.Is(K::kTuple);
  Str out = Str::Own(v.IsDict() ? (v.Is(K::kNamespace) ? "<Namespace {" : "{") : tuple ? "(" : "[");
  bool first = true;
  const auto comma = [&] {
    if (!first) out.Append(Str::Own(", "));
    first = false;
  };
  if (v.IsDict()) {
    for (const auto& [key, value] : v.dict()) {
      comma();
      out.Append(Repr(key, depth + 1));
      out.Append(Str::Own(": "));
      out.Append(Repr(value, depth + 1));
    }
  } else {
    for (const Value& item : v.list()) {
      comma();
      out.Append(Repr(item, depth + 1));
    }
    if (tuple && v.list().size() == 1) out.Append(Str::Own(","));
  }
  out.Append(Str::Own(v.IsDict() ? (v.Is(K::kNamespace) ? "}>" : "}") : tuple ? ")" : "]"));
  return out;
}

class JsonWriter {
 public:
  JsonWriter(int indent, bool sort) : indent_(indent), sort_(sort) {}
  Str Take() { return std::move(out_); }

  void Write(const Value& v, int depth) {
    if (depth > kMaxDepth) throw TemplateError{"a value nested too deep for tojson", 0, true};
    using K = Value::Kind;
    switch (v.kind()) {
      case K::kNone: return Own("null");
      case K::kBool: return Own(v.integer() != 0 ? "true" : "false");
      case K::kInt: return Own(std::to_string(v.integer()));
      case K::kFloat:
        return Own(std::isnan(v.number())   ? "NaN"
                   : std::isinf(v.number()) ? (v.number() < 0 ? "-Infinity" : "Infinity")
                                            : FloatText(v.number()));
      case K::kString: return Text(v.str());
      case K::kList:
      case K::kTuple: return Array(v.list(), depth);
      case K::kDict: return Object(v.dict(), depth);
      default: throw TemplateError{std::string("Object of type ") + v.TypeName() + " is not JSON serializable"};
    }
  }

 private:
  void Own(const std::string& s) { out_.Append(Str::Own(s)); }
  void Break(int depth) {
    if (indent_ >= 0) Own("\n" + std::string(static_cast<size_t>(indent_ * depth), ' '));
  }
  void Array(const List& items, int depth) {
    if (items.empty()) return Own("[]");
    Own("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Own(indent_ >= 0 ? "," : ", ");
      Break(depth + 1);
      Write(items[i], depth + 1);
    }
    Break(depth);
    Own("]");
  }
  void Object(Dict items, int depth) {
    if (items.empty()) return Own("{}");
    if (sort_)
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first.Compare(b.first) < 0; });
    Own("{");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Own(indent_ >= 0 ? "," : ", ");
      Break(depth + 1);
      Text(items[i].first.IsString() ? items[i].first.str() : JsonKey(items[i].first));
      Own(": ");
      Write(items[i].second, depth + 1);
    }
    Break(depth);
    Own("}");
  }
  static Str JsonKey(const Value& v) {
    JsonWriter w(-1, false);
    w.Write(v, 0);
    return w.Take();
  }
  void Text(const Str& s) {
    Own("\"");
    ForEachChar(s.text, [&](char32_t c, size_t at, size_t n) {
      static constexpr char kHex[] = "0123456789abcdef";
      std::string escape;
      switch (c) {
        case '"': escape = "\\\""; break;
        case '\\': escape = "\\\\"; break;
        case '\n': escape = "\\n"; break;
        case '\r': escape = "\\r"; break;
        case '\t': escape = "\\t"; break;
        case '\b': escape = "\\b"; break;
        case '\f': escape = "\\f"; break;
        default:
          if (c < 0x20) escape = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
      }
      out_.Append(escape.empty() ? s.Sub(at, n) : Str::Own(escape));
    });
    Own("\"");
  }

  int indent_;
  bool sort_;
  Str out_;
};

}  // namespace

Str ToRepr(const Value& v) {
  return Repr(v, 0);
}

Str ToText(const Value& v) {
  if (v.IsString()) return v.str();
  return v.Is(Value::Kind::kUndefined) ? Str() : Repr(v, 0);
}

Str ToJson(const Value& v, int indent, bool sort_keys) {
  JsonWriter w(std::min(indent, 64), sort_keys);
  w.Write(v, 0);
  return w.Take();
}

}  // namespace tenon::text
