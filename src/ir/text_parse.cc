#include <charconv>

#include "base/half.h"
#include "ir/text.h"
#include "ir/text_scan.h"

namespace tenon::ir {
namespace {

constexpr int kMaxNesting = 64;

struct Type {
  DType dtype = DType::kUndefined;
  bool is_sequence = false;
  SymShape shape;
};

template <typename T>
bool ToNumber(std::string_view s, T* out) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc() && end == s.data() + s.size();
}

bool LooksLikeInteger(std::string_view s) {
  return s.find_first_not_of("+-0123456789") == std::string_view::npos;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : scan_(text) {}

  Result<Graph> ParseAll() {
    TENON_ASSIGN_OR_RETURN(Graph g, ParseGraph(0));
    if (!scan_.AtEnd()) return scan_.Fail("more text after the graph");
    return g;
  }

 private:
  Result<Graph> ParseGraph(int depth) {
    if (depth > kMaxNesting) return scan_.Fail("graphs are nested deeper than {}", kMaxNesting);
    Graph g;
    TENON_RETURN_IF_ERROR(scan_.Expect("graph"));
    TENON_ASSIGN_OR_RETURN(g.name, scan_.Name());
    TENON_RETURN_IF_ERROR(scan_.Expect("("));
    while (!scan_.Eat(")")) {
      if (!g.inputs().empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      TENON_ASSIGN_OR_RETURN(const std::string name, scan_.Name());
      TENON_ASSIGN_OR_RETURN(const ValueId id, Define(&g, name));
      g.MarkInput(id);
      if (scan_.Eat(":")) TENON_RETURN_IF_ERROR(ReadType(&g.value(id)));
    }
    TENON_RETURN_IF_ERROR(scan_.Expect("->"));
    TENON_RETURN_IF_ERROR(scan_.Expect("("));
    std::vector<std::string> outputs;
    while (!scan_.Eat(")")) {
      if (!outputs.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      TENON_ASSIGN_OR_RETURN(std::string name, scan_.Name());
      outputs.push_back(std::move(name));
    }
    TENON_RETURN_IF_ERROR(scan_.Expect("{"));
    while (!scan_.Eat("}")) TENON_RETURN_IF_ERROR(ParseStatement(&g, depth));
    for (const std::string& name : outputs) {
      const ValueId id = g.FindValue(name);
      if (id == kNone) return scan_.Fail("output '{}' of graph '{}' is not defined", name, g.name);
      g.AddOutput(id);
    }
    return g;
  }

  Result<ValueId> Define(Graph* g, const std::string& name) {
    if (g->FindValue(name) != kNone) return scan_.Fail("'{}' is defined twice", name);
    if (name.empty()) return scan_.Fail("a value has an empty name");
    return g->AddValue(name, DType::kUndefined, SymShape());
  }

  // `outputs = Op(...) ...` or `name: type = const ...`.
  Status ParseStatement(Graph* g, int depth) {
    std::vector<ValueId> outputs;
    do {
      bool quoted = false;
      TENON_ASSIGN_OR_RETURN(const std::string name, scan_.Name(&quoted));
      if (name == "_" && !quoted) {
        outputs.push_back(kNone);
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const ValueId id, Define(g, name));
      outputs.push_back(id);
      if (scan_.Eat(":")) TENON_RETURN_IF_ERROR(ReadType(&g->value(id)));
    } while (scan_.Eat(","));
    TENON_RETURN_IF_ERROR(scan_.Expect("="));
    TENON_ASSIGN_OR_RETURN(std::string op, scan_.Name());
    if (op == "const" && !scan_.Peek("(")) return ParseConstant(g, outputs);
    return ParseNode(g, std::move(op), std::move(outputs), depth);
  }

  Status ParseConstant(Graph* g, const std::vector<ValueId>& outputs) {
    if (outputs.size() != 1 || outputs[0] == kNone) return scan_.Fail("a constant has one name");
    Value& v = g->value(outputs[0]);
    const auto shape = v.shape.ToShape();
    if (v.dtype == DType::kUndefined || v.is_sequence || !shape) {
      return scan_.Fail("constant '{}' needs an element type and a shape of numbers", v.name);
    }
    TENON_ASSIGN_OR_RETURN(v.constant, ReadContents(v.dtype, *shape));
    return Status::Ok();
  }

  Status ParseNode(Graph* g, std::string op, std::vector<ValueId> outputs, int depth) {
    Node node;
    node.op = std::move(op);
    TENON_RETURN_IF_ERROR(scan_.Expect("("));
    while (!scan_.Eat(")")) {
      if (!node.inputs.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      bool quoted = false;
      TENON_ASSIGN_OR_RETURN(const std::string name, scan_.Name(&quoted));
      const ValueId id = name == "_" && !quoted ? kNone : g->FindValue(name);
      if (id == kNone && (name != "_" || quoted)) return scan_.Fail("'{}' is used before it is defined", name);
      for (ValueId o : outputs) {
        if (o != kNone && o == id) return scan_.Fail("'{}' is used before it is defined", name);
      }
      node.inputs.push_back(id);
    }
    if (!scan_.Peek("{{") && scan_.Eat("{")) TENON_RETURN_IF_ERROR(ReadAttrs(&node.attrs));
    if (!outputs.empty() && outputs[0] != kNone) node.name = g->value(outputs[0]).name;
    if (scan_.Eat("@")) {
      TENON_ASSIGN_OR_RETURN(node.name, scan_.String());
    }
    if (scan_.Eat("{{")) {
      while (!scan_.Eat("}}")) {
        TENON_ASSIGN_OR_RETURN(Graph body, ParseGraph(depth + 1));
        node.bodies.push_back(std::make_unique<Graph>(std::move(body)));
      }
    }
    node.outputs = std::move(outputs);
    g->AddNode(std::move(node));
    return Status::Ok();
  }

  Status ReadAttrs(Attrs* attrs) {
    while (!scan_.Eat("}")) {
      if (!attrs->empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      TENON_ASSIGN_OR_RETURN(std::string name, scan_.Name());
      TENON_RETURN_IF_ERROR(scan_.Expect("="));
      TENON_ASSIGN_OR_RETURN(AttrValue value, ReadAttr());
      if (attrs->Has(name)) return scan_.Fail("attribute '{}' is given twice", name);
      attrs->Set(std::move(name), std::move(value));
    }
    return Status::Ok();
  }

  Result<AttrValue> ReadAttr() {
    if (scan_.PeekString()) {
      TENON_ASSIGN_OR_RETURN(std::string s, scan_.String());
      return AttrValue(std::move(s));
    }
    if (scan_.Peek("[")) return ReadList("");
    for (const char* kind : {"ints", "floats", "strings"}) {
      if (scan_.Eat(kind)) return ReadList(kind);
    }
    if (scan_.Eat("tensor")) {
      Value v;
      TENON_RETURN_IF_ERROR(ReadType(&v));
      const auto shape = v.shape.ToShape();
      if (!shape || v.is_sequence || v.dtype == DType::kUndefined)
        return scan_.Fail("a tensor needs a type and a shape of numbers");
      TENON_ASSIGN_OR_RETURN(Tensor t, ReadContents(v.dtype, *shape));
      return AttrValue(std::move(t));
    }
    TENON_ASSIGN_OR_RETURN(const std::string_view number, scan_.Number());
    if (int64_t i = 0; LooksLikeInteger(number) && ToNumber(number, &i)) return AttrValue(i);
    if (float f = 0; !LooksLikeInteger(number) && ToNumber(number, &f)) return AttrValue(f);
    return scan_.Fail("'{}' is not a value of an attribute", number);
  }

  Result<AttrValue> ReadList(std::string_view kind) {
    TENON_RETURN_IF_ERROR(scan_.Expect("["));
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> strings;
    bool integral = kind != "floats";
    while (!scan_.Eat("]")) {
      if (!floats.empty() || !strings.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      if (scan_.PeekString()) {
        TENON_ASSIGN_OR_RETURN(std::string s, scan_.String());
        strings.push_back(std::move(s));
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const std::string_view number, scan_.Number());
      int64_t i = 0;
      float f = 0;
      integral = integral && LooksLikeInteger(number);
      if (!ToNumber(number, &f) || (integral && !ToNumber(number, &i))) return scan_.Fail("'{}' is not a number", number);
      ints.push_back(i);
      floats.push_back(f);
    }
    if (!strings.empty() && !floats.empty()) return scan_.Fail("a list mixes strings and numbers");
    if (!strings.empty() || kind == "strings") return AttrValue(std::move(strings));
    if (integral) return AttrValue(std::move(ints));
    return AttrValue(std::move(floats));
  }

  Status ReadType(Value* v) {
    v->is_sequence = scan_.Eat("seq ");
    if (!scan_.Eat("?")) {
      TENON_ASSIGN_OR_RETURN(const std::string name, scan_.Name());
      const auto dtype = DTypeFromName(name);
      if (!dtype) return scan_.Fail("'{}' is not an element type", name);
      v->dtype = *dtype;
    }
    TENON_RETURN_IF_ERROR(scan_.Expect("["));
    if (scan_.Eat("...")) return scan_.Expect("]");
    std::vector<Dim> dims;
    while (!scan_.Eat("]")) {
      if (!dims.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      if (scan_.PeekString()) {
        TENON_ASSIGN_OR_RETURN(std::string s, scan_.String());
        dims.push_back(Dim::Symbol(std::move(s)));
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const std::string_view text, scan_.Extent());
      auto dim = Dim::Parse(text);
      if (!dim.ok()) return scan_.Fail("{}", dim.status().message());
      if (dim->is_const() && dim->value() < 0) return scan_.Fail("extent {} is negative", dim->value());
      dims.push_back(*std::move(dim));
      if (dims.size() > static_cast<size_t>(kMaxRank)) return scan_.Fail("rank over {}", kMaxRank);
    }
    v->shape = SymShape(std::move(dims));
    return Status::Ok();
  }

  Result<Tensor> ReadContents(DType dtype, const Shape& shape) {
    if (scan_.Peek("<")) return scan_.Fail("the contents of this constant were left out when the text was written");
    const auto checked = CheckedShape(shape.dims());
    if (!checked.ok()) return scan_.Fail("{}", checked.status().message());
    if (scan_.Eat("hex")) return ReadHex(dtype, shape);
    switch (dtype) {
      case DType::kF32: return ReadNumbers<float, float>(shape);
      case DType::kF64: return ReadNumbers<double, double>(shape);
      case DType::kF16: return ReadNumbers<Half, float>(shape);
      case DType::kBF16: return ReadNumbers<BFloat16, float>(shape);
      case DType::kI64: return ReadNumbers<int64_t, int64_t>(shape);
      case DType::kI32: return ReadNumbers<int32_t, int32_t>(shape);
      case DType::kI16: return ReadNumbers<int16_t, int16_t>(shape);
      case DType::kI8: return ReadNumbers<int8_t, int8_t>(shape);
      case DType::kU64: return ReadNumbers<uint64_t, uint64_t>(shape);
      case DType::kU32: return ReadNumbers<uint32_t, uint32_t>(shape);
      case DType::kU16: return ReadNumbers<uint16_t, uint16_t>(shape);
      case DType::kU8: return ReadNumbers<uint8_t, uint8_t>(shape);
      case DType::kBool: return ReadNumbers<bool, uint8_t>(shape);
      case DType::kString: return ReadStrings(shape);
      default: return scan_.Fail("contents of {} are written as hex", DTypeName(dtype));
    }
  }

  Status CheckCount(size_t count, const Shape& shape) {
    if (static_cast<int64_t>(count) == shape.num_elements()) return Status::Ok();
    return scan_.Fail("{} elements given for shape {}", count, shape.ToString());
  }

  // Elements are read before anything is allocated for them, so a huge shape costs nothing.
  template <typename T, typename Parsed>
  Result<Tensor> ReadNumbers(const Shape& shape) {
    TENON_RETURN_IF_ERROR(scan_.Expect("["));
    std::vector<Parsed> values;
    while (!scan_.Eat("]")) {
      if (!values.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      TENON_ASSIGN_OR_RETURN(const std::string_view number, scan_.Number());
      Parsed p{};
      if (!ToNumber(number, &p)) return scan_.Fail("'{}' is not a number of this type", number);
      if (std::is_same_v<T, bool> && p > Parsed{1}) return scan_.Fail("'{}' is not 0 or 1", number);
      values.push_back(p);
    }
    TENON_RETURN_IF_ERROR(CheckCount(values.size(), shape));
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DTypeOf<T>::value, shape));
    for (size_t i = 0; i < values.size(); ++i) t.MutableData<T>()[i] = static_cast<T>(values[i]);
    return t;
  }

  Result<Tensor> ReadStrings(const Shape& shape) {
    TENON_RETURN_IF_ERROR(scan_.Expect("["));
    std::vector<std::string> values;
    while (!scan_.Eat("]")) {
      if (!values.empty()) TENON_RETURN_IF_ERROR(scan_.Expect(","));
      TENON_ASSIGN_OR_RETURN(std::string s, scan_.String());
      values.push_back(std::move(s));
    }
    TENON_RETURN_IF_ERROR(CheckCount(values.size(), shape));
    return Tensor::FromStrings(shape, std::move(values));
  }

  Result<Tensor> ReadHex(DType dtype, const Shape& shape) {
    TENON_ASSIGN_OR_RETURN(const std::string digits, scan_.String());
    const size_t bytes = DTypeBytes(dtype, shape.num_elements());
    if (dtype == DType::kString || digits.size() != 2 * bytes) {
      return scan_.Fail("{} hex digits given for {} of shape {}", digits.size(), DTypeName(dtype), shape.ToString());
    }
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape));
    for (size_t i = 0; i < bytes; ++i) {
      uint8_t byte = 0;
      const auto [end, error] = std::from_chars(&digits[2 * i], &digits[2 * i] + 2, byte, 16);
      if (error != std::errc() || end != &digits[2 * i] + 2) return scan_.Fail("bad hex digits");
      t.MutableData<uint8_t>()[i] = byte;
    }
    return t;
  }

  Scanner scan_;
};

}  // namespace

Result<Graph> Parse(std::string_view text) {
  return Parser(text).ParseAll();
}

}  // namespace tenon::ir
