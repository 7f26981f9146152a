// Expressions.
#include <algorithm>
#include <cmath>

#include "text/template/interpreter.h"

namespace tenon::text {
namespace {

using K = Node::Kind;
using V = Value::Kind;

[[noreturn]] void FailUndefined(const Value& v) {
  throw TemplateError{"'" + v.text() + "' is undefined"};
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Value Integer(const std::string& op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &r);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &r);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &r);
  } else {
    if (b == 0) throw TemplateError{"division by zero"};
    if (b == -1) {
      overflow = op == "//" && a == INT64_MIN;
      r = op == "//" && !overflow ? -a : 0;
    } else {
      r = op == "//" ? FloorDivide(a, b) : a - b * FloorDivide(a, b);
    }
  }
  if (overflow) throw TemplateError{"a number beyond 64 bits"};
  return Value::Int(r);
}

Value Power(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger() && b.integer() >= 0) {
    const bool grows = a.integer() > 1 || a.integer() < -1;
    if (grows && b.integer() > 63) throw TemplateError{"a number beyond 64 bits"};
    const int64_t times = grows || b.integer() == 0 ? b.integer() : 2 - b.integer() % 2;
    Value r = Value::Int(1);
    for (int64_t i = 0; i < times; ++i) r = Integer("*", r.integer(), a.integer());
    return r;
  }
  return Value::Float(std::pow(a.number(), b.number()));
}

Value Real(const std::string& op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (b == 0) throw TemplateError{"division by zero"};
  if (op == "/") return Value::Float(a / b);
  const double floor = std::floor(a / b);
  return Value::Float(op == "//" ? floor : a - b * floor);
}

}  // namespace

bool Contains(const Value& container, const Value& item) {
  if (container.IsString()) {
    if (!item.IsString())
      throw TemplateError{std::string("'in <string>' requires string as left operand, not ") + item.TypeName()};
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.IsDict()) {
    for (const auto& [key, value] : container.dict()) {
      if (key.Equals(item)) return true;
    }
    return false;
  }
  for (const Value& v : ToList(container)) {
    if (v.Equals(item)) return true;
  }
  return false;
}

Value Interpreter::Eval(const Node& n) {
  if (++steps_ > limits_.steps) throw TemplateError{"more than " + std::to_string(limits_.steps) + " steps", n.line, true};
  if (++depth_ > limits_.depth) throw TemplateError{"expressions or calls nested too deep", n.line, true};
  struct Leave {
    int* depth;
    ~Leave() { --*depth; }
  } const leave{&depth_};
  switch (n.kind) {
    case K::kConst: return n.value;
    case K::kName: {
      const Value* v = scope_->Find(n.name);
      return v != nullptr ? *v : Value::Undefined(n.name);
    }
    case K::kList:
    case K::kTuple: {
      List items;
      for (const NodePtr& a : n.args) items.push_back(Eval(*a));
      return Value::MakeList(std::move(items), n.kind == K::kTuple);
    }
    case K::kDict: {
      const Value dict = Value::MakeDict({});
      for (size_t i = 0; i < n.args.size(); i += 2) dict.Set(Eval(*n.args[i]), Eval(*n.args[i + 1]));
      return dict;
    }
    case K::kUnary: {
      const Value v = Eval(*n.args[0]);
      if (n.name == "not") return Value::Bool(!v.Truth());
      if (v.Is(V::kUndefined)) FailUndefined(v);
      if (!v.IsNumber())
        throw TemplateError{std::string("bad operand type for unary ") + n.name + ": '" + v.TypeName() + "'", n.line};
      if (n.name == "+") return v;
      return v.Is(V::kFloat) ? Value::Float(-v.number()) : Integer("-", 0, v.integer());
    }
    case K::kBinary: return EvalBinary(n);
    case K::kCompare: return EvalCompare(n);
    case K::kCond:
      if (Eval(*n.args[0]).Truth()) return Eval(*n.args[1]);
      return n.args.size() > 2 ? Eval(*n.args[2]) : Value::Undefined("the inline if-expression without else");
    case K::kAttr: return Attribute(Eval(*n.args[0]), n.name, n.line);
    case K::kItem: {
      const Value object = Eval(*n.args[0]);
      return GetItem(object, Eval(*n.args[1]));
    }
    case K::kSlice: return EvalSlice(n);
    case K::kCall: return EvalCall(n, nullptr);
    case K::kFilter: return EvalFilter(n, nullptr);
    case K::kTest: return EvalTest(n);
    default: throw TemplateError{"no expression", n.line};
  }
}

Value Interpreter::EvalBinary(const Node& n) {
  const Value a = Eval(*n.args[0]);
  if (n.name == "and") return a.Truth() ? Eval(*n.args[1]) : a;
  if (n.name == "or") return a.Truth() ? a : Eval(*n.args[1]);
  const Value b = Eval(*n.args[1]);
  if (n.name == "~") {
    Str s = ToText(a);
    s.Append(ToText(b));
    Charge(s.text.size());
    return Value::String(std::move(s));
  }
  return EvalArithmetic(n.name, a, b);
}

Value Interpreter::EvalArithmetic(const std::string& op, const Value& a, const Value& b) {
  if (a.Is(V::kUndefined)) FailUndefined(a);
  if (b.Is(V::kUndefined)) FailUndefined(b);
  if (a.IsNumber() && b.IsNumber()) {
    if (op == "**") return Power(a, b);
    return a.IsInteger() && b.IsInteger() && op != "/" ? Integer(op, a.integer(), b.integer()) : Real(op, a.number(), b.number());
  }
  if (op == "+" && a.IsString() && b.IsString()) {
    Str s = a.str();
    s.Append(b.str());
    Charge(s.text.size());
    return Value::String(std::move(s));
  }
  if (op == "+" && a.kind() == b.kind() && a.IsList()) {
    List items = a.list();
    items.insert(items.end(), b.list().begin(), b.list().end());
    Charge(items.size() * sizeof(Value));
    return Value::MakeList(std::move(items), a.Is(V::kTuple));
  }
  if (op == "%" && a.IsString()) return Value::String(FormatPercent(a.str(), b.Is(V::kTuple) ? b.list() : List{b}));
  if (op == "*" && (a.IsString() || a.IsList()) && b.IsInteger()) {
    const int64_t times = std::max<int64_t>(b.integer(), 0);
    const size_t size = a.IsString() ? a.text().size() : a.list().size() * sizeof(Value);
    if (size > 0 && static_cast<uint64_t>(times) > static_cast<uint64_t>(limits_.bytes) / size)
      throw TemplateError{"a repetition that is too large", 0, true};
    Charge(size * static_cast<size_t>(times));
    Str s;
    List items;
    for (int64_t i = 0; i < (size > 0 ? times : 0); ++i) {
      if (a.IsString()) s.Append(a.str());
      if (a.IsList()) items.insert(items.end(), a.list().begin(), a.list().end());
    }
    return a.IsString() ? Value::String(std::move(s)) : Value::MakeList(std::move(items), a.Is(V::kTuple));
  }
  if (op == "*" && a.IsInteger() && (b.IsString() || b.IsList())) return EvalArithmetic(op, b, a);
  if (op == "+" && a.IsString())
    throw TemplateError{std::string("can only concatenate str (not \"") + b.TypeName() + "\") to str"};
  throw TemplateError{"unsupported operand type(s) for " + op + ": '" + a.TypeName() + "' and '" + b.TypeName() + "'"};
}

Value Interpreter::EvalCompare(const Node& n) {
  Value left = Eval(*n.args[0]);
  for (size_t i = 0; i < n.names.size(); ++i) {
    Value right = Eval(*n.args[i + 1]);
    const std::string& op = n.names[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = left.Equals(right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = Contains(right, left) == (op == "in");
    } else {
      if (left.Is(V::kUndefined)) FailUndefined(left);
      if (right.Is(V::kUndefined)) FailUndefined(right);
      const int c = left.Compare(right);
      holds = op == "<" ? c < 0 : op == "<=" ? c <= 0 : op == ">" ? c > 0 : c >= 0;
    }
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvalSlice(const Node& n) {
  const Value object = Eval(*n.args[0]);
  int64_t parts[3] = {0, 0, 1};
  bool given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (n.args[i + 1] == nullptr) continue;
    const Value v = Eval(*n.args[i + 1]);
    if (v.Is(V::kNone)) continue;
    if (!v.IsInteger()) throw TemplateError{"slice indices must be integers", n.line};
    parts[i] = v.integer();
    given[i] = true;
  }
  const int64_t* start = given[0] ? &parts[0] : nullptr;
  const int64_t* stop = given[1] ? &parts[1] : nullptr;
  if (object.IsString()) {
    Charge(object.text().size());
    return Value::String(Slice(object.str(), start, stop, parts[2]));
  }
  if (object.Is(V::kUndefined)) FailUndefined(object);
  if (!object.IsList()) throw TemplateError{std::string("'") + object.TypeName() + "' object cannot be sliced", n.line};
  List items;
  for (size_t p : SlicePositions(object.list().size(), start, stop, parts[2])) items.push_back(object.list()[p]);
  return Value::MakeList(std::move(items), object.Is(V::kTuple));
}

// object.name: an attribute first (methods), then an item.
Value Interpreter::Attribute(const Value& object, const std::string& name, int line) const {
  if (object.Is(V::kUndefined)) throw TemplateError{"'" + object.text() + "' is undefined", line};
  if (!object.Is(V::kNamespace)) {
    Value method = Method(object, name);
    if (!method.Is(V::kUndefined)) return method;
  }
  if (object.IsDict()) {
    if (const Value* v = object.Get(name)) return *v;
  }
  return Value::Undefined(std::string(object.TypeName()) + " object has no attribute '" + name + "'");
}

// object[key]: an item first, then an attribute.
Value Interpreter::GetItem(const Value& object, const Value& key) const {
  if (object.Is(V::kUndefined)) FailUndefined(object);
  if (object.IsDict()) {
    for (const auto& [k, v] : object.dict()) {
      if (k.Equals(key)) return v;
    }
  } else if (key.IsInteger() && (object.IsList() || object.IsString())) {
    const auto size = static_cast<int64_t>(object.IsList() ? object.list().size() : Length(object.str()));
    const int64_t i = key.integer() < 0 ? key.integer() + size : key.integer();
    if (i >= 0 && i < size) {
      if (object.IsList()) return object.list()[static_cast<size_t>(i)];
      const int64_t end = i + 1;
      return Value::String(Slice(object.str(), &i, &end, 1));
    }
    return Value::Undefined(std::string(object.TypeName()) + " object has no element " + std::to_string(key.integer()));
  }
  if (key.IsString() && !object.Is(V::kNamespace)) {
    Value method = Method(object, key.text());
    if (!method.Is(V::kUndefined)) return method;
  }
  return Value::Undefined(std::string(object.TypeName()) + " object has no element " + ToRepr(key).text);
}

Arguments Interpreter::EvalArguments(const Node& n) {
  Arguments a;
  for (size_t i = 1; i < n.args.size(); ++i) a.positional.push_back(Eval(*n.args[i]));
  for (const auto& [name, value] : n.named) a.named.emplace_back(name, Eval(*value));
  return a;
}

Value Interpreter::EvalCall(const Node& n, const Value* caller) {
  Value callee = Eval(*n.args[0]);
  Arguments a = EvalArguments(n);
  if (caller != nullptr) a.named.emplace_back("caller", *caller);
  if (callee.Is(V::kUndefined)) FailUndefined(callee);
  if (callee.IsDict()) {   // a recursive loop
    const Value* call = callee.Get("__call__");
    if (call != nullptr && call->Is(V::kFunction)) callee = Value(*call);
  }
  if (!callee.Is(V::kFunction)) throw TemplateError{std::string("'") + callee.TypeName() + "' object is not callable", n.line};
  Value result = callee.function()(a);
  if (result.IsString()) Charge(result.text().size());
  return result;
}

// Filters on the text of a block have kText in the place of their object.
Value Interpreter::EvalFilter(const Node& n, const Value* block) {
  const Node& object = *n.args[0];
  const Value value = object.kind == K::kText && block != nullptr ? *block
                      : object.kind == K::kFilter                 ? EvalFilter(object, block)
                                                                  : Eval(object);
  try {
    Value result = ApplyFilter(n.name, value, EvalArguments(n));
    if (result.IsString()) Charge(result.text().size());
    if (result.IsList()) Charge(result.list().size() * sizeof(Value));
    return result;
  } catch (TemplateError& e) {
    if (e.line == 0) e.line = n.line;
    throw;
  }
}

Value Interpreter::EvalTest(const Node& n) {
  const Value object = Eval(*n.args[0]);
  return Value::Bool(ApplyTest(n.name, object, EvalArguments(n)));
}

}  // namespace tenon::text
