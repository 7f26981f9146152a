#include <algorithm>

#include "base/half.h"
#include "ir/text.h"

namespace tenon::ir {
namespace {

bool IsWord(std::string_view s) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/';
  };
  return !s.empty() && s != "_" && std::all_of(s.begin(), s.end(), plain);
}

std::string Quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string NameText(std::string_view s) {
  return IsWord(s) ? std::string(s) : Quoted(s);
}

template <typename T>
std::string FloatText(T f) {
  std::string s = fmt::format("{}", f);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";  // "inf" and "nan" hold an n
  return s;
}

std::string DimText(const Dim& d) {
  const std::string s = d.ToString();
  if (d.is_unknown()) return s;
  auto parsed = s.find(' ') == std::string::npos ? Dim::Parse(s) : Result<Dim>(Status(Code::kBadInput, ""));
  return parsed.ok() && *parsed == d ? s : Quoted(s);
}

std::string ShapeText(const SymShape& shape) {
  if (!shape.has_rank()) return "[...]";
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) out += (i > 0 ? "," : "") + DimText(shape[i]);
  return out + "]";
}

std::string TypeText(DType t, bool is_sequence, const SymShape& shape) {
  const std::string name(t == DType::kUndefined ? "?" : DTypeName(t));
  return (is_sequence ? "seq " : "") + name + ShapeText(shape);
}

template <typename T, typename F>
std::string ElementsText(const void* data, int64_t n, F&& text) {
  std::string out = "[";
  for (int64_t i = 0; i < n; ++i) out += (i > 0 ? ", " : "") + text(static_cast<const T*>(data)[i]);
  return out + "]";
}

std::string HexText(const View& v) {
  std::string out = "hex \"";
  const auto* p = static_cast<const uint8_t*>(v.data);
  for (size_t i = 0; i < v.bytes(); ++i) out += fmt::format("{:02x}", p[i]);
  return out + '"';
}

std::string ContentsText(const View& v) {
  const auto number = [](auto x) { return fmt::format("{}", x); };
  const int64_t n = v.num_elements();
  switch (v.dtype) {
    case DType::kF32: return ElementsText<float>(v.data, n, number);
    case DType::kF64: return ElementsText<double>(v.data, n, number);
    case DType::kF16: return ElementsText<Half>(v.data, n, [](Half h) { return fmt::format("{}", static_cast<float>(h)); });
    case DType::kBF16:
      return ElementsText<BFloat16>(v.data, n, [](BFloat16 h) { return fmt::format("{}", static_cast<float>(h)); });
    case DType::kI64: return ElementsText<int64_t>(v.data, n, number);
    case DType::kI32: return ElementsText<int32_t>(v.data, n, number);
    case DType::kI16: return ElementsText<int16_t>(v.data, n, number);
    case DType::kI8: return ElementsText<int8_t>(v.data, n, [](int8_t x) { return fmt::format("{}", int{x}); });
    case DType::kU64: return ElementsText<uint64_t>(v.data, n, number);
    case DType::kU32: return ElementsText<uint32_t>(v.data, n, number);
    case DType::kU16: return ElementsText<uint16_t>(v.data, n, number);
    case DType::kU8:
    case DType::kBool: return ElementsText<uint8_t>(v.data, n, [](uint8_t x) { return fmt::format("{}", int{x}); });
    case DType::kString: return ElementsText<std::string>(v.data, n, [](const std::string& s) { return Quoted(s); });
    default: return HexText(v);
  }
}

// FNV-1a over the bytes (strings: their characters), enough to tell constants apart by eye.
uint64_t Digest(const View& v) {
  uint64_t h = 0xcbf29ce484222325u;
  const auto add = [&h](const void* data, size_t n) {
    for (size_t i = 0; i < n; ++i) h = (h ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  };
  if (v.dtype == DType::kString) {
    for (int64_t i = 0; i < v.num_elements(); ++i) add(v.Data<std::string>()[i].data(), v.Data<std::string>()[i].size() + 1);
  } else {
    add(v.data, v.bytes());
  }
  return h;
}

std::string ConstantText(const View& v, const PrintOptions& options) {
  if (v.num_elements() <= options.max_constant_elements) return ContentsText(v);
  return fmt::format("<{}, {:016x}>", v.shape.ToString(), Digest(v));
}

template <typename T, typename F>
std::string ListText(const std::vector<T>& list, const char* kind, F&& text) {
  if (list.empty()) return std::string(kind) + " []";
  return ElementsText<T>(list.data(), static_cast<int64_t>(list.size()), text);
}

std::string AttrText(const AttrValue& value, const PrintOptions& options) {
  const auto number = [](int64_t x) { return std::to_string(x); };
  if (const auto* i = std::get_if<int64_t>(&value)) return number(*i);
  if (const auto* f = std::get_if<float>(&value)) return FloatText(*f);
  if (const auto* s = std::get_if<std::string>(&value)) return Quoted(*s);
  if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) return ListText(*l, "ints", number);
  if (const auto* l = std::get_if<std::vector<float>>(&value)) return ListText(*l, "floats", FloatText<float>);
  if (const auto* l = std::get_if<std::vector<std::string>>(&value)) return ListText(*l, "strings", Quoted);
  const Tensor& t = std::get<Tensor>(value);
  return "tensor " + TypeText(t.dtype(), false, t.shape()) + " " + ConstantText(t.view(), options);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  void PrintGraph(const Graph& g, const std::string& indent) {
    out_ += "graph " + NameText(g.name) + "(";
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Value& v = g.value(g.inputs()[i]);
      out_ += (i > 0 ? ", " : "") + NameText(v.name) + ": " + TypeText(v.dtype, v.is_sequence, v.shape);
    }
    out_ += ") -> (";
    for (size_t i = 0; i < g.outputs().size(); ++i) out_ += (i > 0 ? ", " : "") + NameText(g.value(g.outputs()[i]).name);
    out_ += ") {\n";
    for (size_t i = 0; i < g.num_value_slots(); ++i) {
      const Value& v = g.value(static_cast<ValueId>(i));
      if (v.dead || !v.constant.defined()) continue;
      out_ += indent + "  " + NameText(v.name) + ": " + TypeText(v.dtype, false, v.shape) + " = const " +
              ConstantText(v.constant.view(), options_) + "\n";
    }
    auto order = g.TopologicalOrder();
    if (!order.ok()) out_ += indent + "  # " + order.status().message() + "\n";
    if (order.ok()) {
      for (NodeId id : *order) PrintNode(g, g.node(id), indent + "  ");
    }
    out_ += indent + "}";
  }

  std::string Take() { return std::move(out_) + "\n"; }

 private:
  void PrintNode(const Graph& g, const Node& n, const std::string& indent) {
    out_ += indent;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (n.outputs[i] == kNone) {
        out_ += "_";
        continue;
      }
      const Value& v = g.value(n.outputs[i]);
      out_ += NameText(v.name);
      const bool known = v.dtype != DType::kUndefined || v.shape.has_rank() || v.is_sequence;
      if (options_.types && known) out_ += ": " + TypeText(v.dtype, v.is_sequence, v.shape);
    }
    out_ += " = " + NameText(n.op) + "(";
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      out_ += (i > 0 ? ", " : "") + (n.inputs[i] == kNone ? "_" : NameText(g.value(n.inputs[i]).name));
    }
    out_ += ")";
    if (!n.attrs.empty()) {
      out_ += " {";
      const char* separator = "";
      for (const auto& [name, value] : n.attrs) {
        out_ += separator + NameText(name) + "=" + AttrText(value, options_);
        separator = ", ";
      }
      out_ += "}";
    }
    const bool named_by_output = !n.outputs.empty() && n.outputs[0] != kNone && g.value(n.outputs[0]).name == n.name;
    if (options_.node_names && !n.name.empty() && !named_by_output) out_ += " @" + Quoted(n.name);
    if (!n.bodies.empty()) {
      out_ += " {{\n";
      for (const auto& body : n.bodies) {
        out_ += indent + "  ";
        PrintGraph(*body, indent + "  ");
        out_ += "\n";
      }
      out_ += indent + "}}";
    }
    out_ += "\n";
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string Print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.PrintGraph(graph, "");
  return printer.Take();
}

}  // namespace tenon::ir
